// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "../interfaces/ITrainingLedger.sol";
import {ClientState, COMMITTED} from "./ClientState.sol";
import {RoundState, Status} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";

/// @title JudgePhase
/// @notice What the clients that committed in a round say of it, before its closing and after, and what follows where
/// more than half of them say the same.
abstract contract JudgePhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @dev What was said before the closing, and after it; a verdict says when.
    struct Judgements {
        mapping(bytes32 verdict => uint256) count;
        mapping(uint32 client => mapping(Phase asked => bytes32 verdict)) said;
    }

    mapping(uint64 round => Judgements) private _judgements;

    function judge(uint64 round, Phase asked, bytes32 modelDigest, bytes32 metricsDigest) external direct {
        if ((modelDigest == 0) != (metricsDigest == 0)) revert ZeroDigest(round);
        Round storage entry = _round(round);
        RoundState state = entry.state;
        ClientState client = _client(msg.sender).state;
        if (asked == Phase.Recover) _onlyBeforeClosing(round, state, client, modelDigest);
        else _onlyAfterClosing(round, asked, client);
        Judgements storage judgements = _judgements[round];
        uint32 index = client.client();
        bytes32 said = judgements.said[index][asked];
        bytes32 verdict = keccak256(abi.encode(asked, modelDigest, metricsDigest));
        uint256 count = judgements.count[verdict];
        if (said != 0) {
            // Who saw no result, or less of one, may take that back for a result that others put into its reach.
            if (modelDigest == 0 || said == verdict || count == 0) revert AlreadyJudged(round, index);
            --judgements.count[said];
        }
        judgements.said[index][asked] = verdict;
        judgements.count[verdict] = ++count;
        emit Judged(round, index, asked, modelDigest, metricsDigest);
        if (count < judges || 2 * count <= state.committed()) return;
        if (asked == Phase.Recover) _fail(round, entry, state);
        else if (modelDigest == 0) _void(round, entry, state);
        else if (modelDigest != currentModel || metricsDigest != currentMetrics) {
            _replace(round, modelDigest, metricsDigest);
        }
    }

    /// @dev Reverts unless the caller, whose state this is, may say that nothing may be summed, and says it.
    function _onlyBeforeClosing(uint64 round, RoundState state, ClientState client, bytes32 modelDigest) private view {
        if (_phaseOf(round, state) != Phase.Recover) _wrongPhase(round, state, Phase.Recover);
        // Where the clock does not fail a round, they may once the window of its latest stage is over.
        bool isLate = vouchWindow != 0 && block.number - state.openedAt() > _recoverEnd(state, _vouchingOf(round));
        if (state.released() >= releases && !isLate) revert ReleasesListed(round, state.released());
        if (modelDigest != 0) revert OnlyNothing(round);
        if (!client.isAt(round, COMMITTED, COMMITTED)) revert NotCommitted(round, msg.sender);
    }

    /// @dev Reverts unless the caller, whose state this is, may judge the closing of `round`.
    function _onlyAfterClosing(uint64 round, Phase asked, ClientState client) private view {
        uint64 standing = lastClosed;
        if (asked != Phase.Closed || round == 0 || round != standing) revert NotJudgeable(round, standing);
        if (!client.madeModelOf(round)) revert NotCommitted(round, msg.sender);
    }

    /// @dev Ends a round without a model. One that was sealed is counted.
    function _fail(uint64 round, Round storage entry, RoundState state) internal {
        if (state.status() >= Status.Sealed) ++failedRounds;
        entry.state = state.ended(Status.Failed, block.number);
        emit Failed(round);
    }

    /// @dev Ends `round`, which is the last closed one, and the round that runs on its model.
    function _void(uint64 round, Round storage entry, RoundState state) private {
        bytes32 model = entry.model;
        entry.state = state.ended(Status.Voided, block.number);
        currentModel = model;
        lastClosed = 0;
        --closedRounds;
        isStruck[closer] = true;
        emit Voided(round, model);
        _voidRunning(model);
    }

    /// @dev Puts a result in the place of that of `round`, which is the last closed one.
    function _replace(uint64 round, bytes32 modelDigest, bytes32 metricsDigest) private {
        bool hasOtherModel = modelDigest != currentModel;
        currentModel = modelDigest;
        currentMetrics = metricsDigest;
        isStruck[closer] = true;
        emit Replaced(round, modelDigest, metricsDigest);
        if (hasOtherModel) _voidRunning(modelDigest);
    }

    /// @dev Ends the round that runs, if any, which trains from a model that no longer stands.
    function _voidRunning(bytes32 model) private {
        uint64 current = currentRound;
        RoundState running = _round(current).state;
        if (running.status() >= Status.Closed) return;
        _round(current).state = running.ended(Status.Voided, block.number);
        emit Voided(current, model);
    }
    // slither-disable-end shadowing-local
}
