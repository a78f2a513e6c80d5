// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientState} from "./ClientState.sol";
import {RoundState, Status} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";

/// @title DisputePhase
/// @notice What the clients of a closed round may say against its closing, and what follows from it.
abstract contract DisputePhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    struct Disputes {
        uint32 count;
        mapping(uint32 client => bool) hasDisputed;
    }

    mapping(uint64 round => Disputes) private _disputes;

    function disputeRound(uint64 round, bytes32 evidence) external direct {
        uint64 standing = lastClosed;
        if (round == 0 || round != standing) revert NotDisputable(round, standing);
        ClientState state = _client(msg.sender).state;
        if (!state.madeModelOf(round)) revert NotCommitted(round, msg.sender);
        Disputes storage disputes = _disputes[round];
        uint32 client = state.client();
        if (disputes.hasDisputed[client]) revert AlreadyDisputed(round, client);
        disputes.hasDisputed[client] = true;
        uint32 count = ++disputes.count;
        emit Disputed(round, client, evidence);
        if (2 * count > _round(round).state.committed()) _void(round, count);
    }

    /// @dev Ends `round`, which is the last closed one, and the round that runs on its model.
    function _void(uint64 round, uint32 disputes) private {
        Round storage entry = _round(round);
        bytes32 model = entry.model;
        entry.state = entry.state.ended(Status.Voided, block.number);
        currentModel = model;
        lastClosed = 0;
        --closedRounds;
        emit Voided(round, model, disputes);
        uint64 current = currentRound;
        RoundState running = _round(current).state;
        if (running.status() >= Status.Closed) return;
        _round(current).state = running.ended(Status.Voided, block.number);
        emit Voided(current, model, 0);
    }
    // slither-disable-end shadowing-local
}
