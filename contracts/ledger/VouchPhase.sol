// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "../interfaces/ITrainingLedger.sol";
import {AFFIRMED, ClientState, COMMITTED, VOUCHED} from "./ClientState.sol";
import {RoundState, Status} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";
import {AFFIRM_END, VOUCH_END, VouchState} from "./VouchState.sol";

/// @title VouchPhase
/// @notice Where a federation bounds the hidden updates: what the clients that committed prove of their own, what they
/// say of others', and the shared points by which they contradict each other.
///
/// All of it is about one random sketch, which follows from the hash of a block after the commits. The first voucher
/// puts that hash on record, and every later record of the round names it: one that its author made for another branch
/// of the chain reverts here, so that a reorganisation makes nobody a liar.
abstract contract VouchPhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @dev How often a client may reveal in a round: once before it affirms, and after the closing of a phase or stage
    /// that shows more. A blob holds any number of points, so that many liars around a client do not use that up.
    uint256 private constant MOST_REVEALS = 8;

    function vouch(uint64 round, bytes32 blockHash, bytes32 digest) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        VouchState vouching = _vouchingOf(round);
        if (!_isBetween(roundState, Status.Sealed, _commitEnd(roundState), _vouchEnd(roundState, vouching))) {
            _wrongPhase(round, roundState, Phase.Vouch);
        }
        uint256 sketchBlock = roundState.openedAt() + _sketchBlock(roundState);
        if (block.number <= sketchBlock) revert SketchBlockNotPast(round, sketchBlock);
        if (entry.sketchHash == 0) entry.sketchHash = _blockHash(round, sketchBlock);
        _onlyOfSketch(round, entry, blockHash);
        (Client storage client, ClientState state) = _committedClient(round);
        if (state.has(VOUCHED)) revert AlreadyVouched(round, state.client());
        client.state = state.withFlag(VOUCHED);
        vouching = vouching.withVouch();
        bool isLast = vouching.vouched() == roundState.committed();
        entry.vouching = isLast ? vouching.withEnd(VOUCH_END, block.number - roundState.openedAt()) : vouching;
        emit Vouched(round, state.client(), blockHash, digest);
        if (isLast) emit VouchEnded(round);
    }

    function affirm(uint64 round, bytes32 blockHash, bytes32 word) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        VouchState vouching = _vouchingOf(round);
        uint256 vouchEnd = _vouchEnd(roundState, vouching);
        if (!_isBetween(roundState, Status.Sealed, vouchEnd, _affirmEnd(roundState, vouching))) {
            _wrongPhase(round, roundState, Phase.Affirm);
        }
        _onlyOfSketch(round, entry, blockHash);
        (Client storage client, ClientState state) = _committedClient(round);
        if (state.has(AFFIRMED)) revert AlreadyAffirmed(round, state.client());
        client.state = state.withFlag(AFFIRMED);
        vouching = vouching.withAffirm();
        bool isLast = vouching.affirmed() == roundState.committed();
        entry.vouching = isLast ? vouching.withEnd(AFFIRM_END, block.number - roundState.openedAt()) : vouching;
        emit Affirmed(round, state.client(), blockHash, word);
        if (isLast) emit AffirmEnded(round);
    }

    function reveal(uint64 round, bytes32 blockHash, bytes32 digest) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        uint256 vouchEnd = _vouchEnd(roundState, _vouchingOf(round));
        if (vouchWindow == 0 || !_isBetween(roundState, Status.Sealed, vouchEnd, type(uint256).max)) {
            _wrongPhase(round, roundState, Phase.Affirm);
        }
        _onlyOfSketch(round, entry, blockHash);
        (Client storage client, ClientState state) = _committedClient(round);
        if (state.reveals() == MOST_REVEALS) revert RevealsUsedUp(round, state.client());
        client.state = state.withReveal();
        emit Revealed(round, state.client(), blockHash, digest);
    }

    /// @dev The caller, which must have committed in `round`.
    function _committedClient(uint64 round) private view returns (Client storage client, ClientState state) {
        client = _client(msg.sender);
        state = client.state;
        if (!state.isAt(round, COMMITTED, COMMITTED)) revert NotCommitted(round, msg.sender);
    }
    // slither-disable-end shadowing-local
}
