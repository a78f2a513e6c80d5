// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "./interfaces/IClientRegistry.sol";
import {Phase, Settings, Terms} from "./interfaces/ITrainingLedger.sol";
import {ClientState, COMMITTED, RELEASED, SHARED} from "./ledger/ClientState.sol";
import {DrawPhase} from "./ledger/DrawPhase.sol";
import {JudgePhase} from "./ledger/JudgePhase.sol";
import {RoundClock} from "./ledger/RoundClock.sol";
import {COMMIT_END, newRoundState, RoundState, SHARE_END, Status} from "./ledger/RoundState.sol";
import {RoundStore} from "./ledger/RoundStore.sol";
import {SealPhase} from "./ledger/SealPhase.sol";

/// @title TrainingLedger
/// @notice See {ITrainingLedger}. {RoundClock} says when, {RoundStore} holds what, {DrawPhase} and {SealPhase} do the
/// first half of a round, this contract the second, {JudgePhase} what its clients say of it. Nothing is upgradeable,
/// payable or pausable, and no function deletes.
contract TrainingLedger is DrawPhase, SealPhase, JudgePhase {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @param registry_ must name this contract as its ledger
    constructor(IClientRegistry registry_, address coordinator_, Settings memory settings_, Terms memory terms_)
        RoundClock(settings_)
        RoundStore(registry_, coordinator_, terms_)
    {}

    function open(bytes32 modelDigest, address[] calldata barred) external direct returns (uint64 round) {
        uint64 previous = currentRound;
        if (previous == 0) {
            if (msg.sender != coordinator) revert OnlyCoordinator(msg.sender, type(uint256).max);
        } else {
            RoundState ended = _round(previous).state;
            if (ended.status() < Status.Closed) revert RoundRunning(previous, _phaseOf(ended));
            _onlyCoordinatorOrMember(ended.endedAt());
        }
        if (closedRounds == rounds || failedRounds > repeats) revert FederationOver(closedRounds, failedRounds);
        if (modelDigest != currentModel) revert WrongModel(modelDigest, currentModel);
        round = previous + 1;
        uint32 samplingRate = _nextRate(round);
        currentRound = round;
        _round(round).model = modelDigest;
        bool follows = previous != 0 && previous == lastClosed;
        uint256 awaited = _awaited(round, samplingRate, barred);
        _round(round).state = newRoundState(block.number, samplingRate, follows, awaited);
        uint64 seedBlock = uint64(block.number + seedDelay);
        emit RoundOpened(round, modelDigest, config, samplingRate, uint64(block.number), seedBlock, barred);
    }

    function skip(uint64 round) external direct {
        RoundState state = _running(round);
        uint256 drawEnd = state.openedAt() + _drawWindowEnd();
        if (block.number <= drawEnd) revert DrawStillOpen(round, drawEnd);
        if (state.drawn() >= quorum) revert QuorumReached(round, state.drawn(), quorum);
        _onlyCoordinatorOrMember(drawEnd);
        if (msg.sender != coordinator && state.samplingRate() == EVERYONE) _onlyWithReason(round, state);
        _round(round).state = state.ended(Status.Skipped, block.number);
        emit Skipped(round, state.drawn());
    }

    function share(uint64 round, bytes32 digest) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        if (!_isBetween(roundState, Status.Sealed, 0, _shareEnd(roundState))) {
            _wrongPhase(round, roundState, Phase.Share);
        }
        Client storage client = _client(msg.sender);
        ClientState state = client.state;
        if (!state.isAt(round, 0, SHARED)) {
            _onlyDrawn(round, state);
            revert AlreadyShared(round, state.client());
        }
        client.state = state.withFlag(SHARED);
        roundState = roundState.withShare();
        bool isLast = roundState.shared() == roundState.drawn();
        entry.state = isLast ? roundState.withEnd(SHARE_END, block.number) : roundState;
        emit Shared(round, state.client(), digest);
        if (isLast) emit ShareEnded(round);
    }

    function commit(uint64 round, bytes32 digest, bytes32 seedHash) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        if (!_isBetween(roundState, Status.Sealed, _shareEnd(roundState), _commitEnd(roundState))) {
            _wrongPhase(round, roundState, Phase.Commit);
        }
        Client storage client = _client(msg.sender);
        ClientState state = client.state;
        if (!state.isAt(round, SHARED, SHARED | COMMITTED)) {
            _onlyDrawn(round, state);
            if (state.has(COMMITTED)) revert AlreadyCommitted(round, state.client());
            revert NotShared(round, state.client());
        }
        client.state = state.withFlag(COMMITTED);
        roundState = roundState.withCommit();
        bool isLast = roundState.committed() == roundState.shared();
        entry.state = isLast ? roundState.withEnd(COMMIT_END, block.number) : roundState;
        emit Committed(round, state.client(), digest, seedHash);
        if (isLast) emit CommitEnded(round);
    }

    function release(uint64 round, bytes32 digest) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        uint256 commitEnd = _commitEnd(roundState);
        Status needed = roundState.status() == Status.Closed ? Status.Closed : Status.Sealed;
        if (!_isBetween(roundState, needed, commitEnd, commitEnd + recoverWindow)) {
            _wrongPhase(round, roundState, Phase.Recover);
        }
        Client storage client = _client(msg.sender);
        ClientState state = client.state;
        _onlyDrawn(round, state);
        if (state.has(RELEASED)) revert AlreadyReleased(round, state.client());
        client.state = state.withFlag(RELEASED);
        entry.state = roundState.withRelease();
        emit Released(round, state.client(), digest);
    }

    function close(uint64 round, bytes32 modelDigest, bytes32 metricsDigest) external direct {
        Round storage entry = _round(round);
        RoundState state = entry.state;
        if (_phaseOf(state) != Phase.Recover) _wrongPhase(round, state, Phase.Recover);
        if (_isHopeless(state)) revert CommitsMissing(round, state.committed(), state.drawn());
        if (state.released() < releases) revert ReleasesMissing(round, state.released(), releases);
        bool isCoordinator = msg.sender == coordinator;
        if (!isCoordinator && !_client(msg.sender).state.isAt(round, COMMITTED, COMMITTED)) {
            revert NotCommitted(round, msg.sender);
        }
        uint256 lot = isCoordinator ? 0 : uint256(keccak256(abi.encode(entry.orderRoot, msg.sender)));
        _onlyCoordinator(state.openedAt() + _commitEnd(state), lot % (uint256(coordinatorGrace) + 1));
        if (modelDigest == 0 || metricsDigest == 0) revert ZeroDigest(round);
        entry.state = state.ended(Status.Closed, block.number);
        currentModel = modelDigest;
        currentMetrics = metricsDigest;
        lastClosed = round;
        closer = msg.sender;
        ++closedRounds;
        emit Closed(round, modelDigest, metricsDigest);
    }

    function fail(uint64 round) external direct {
        Round storage entry = _round(round);
        RoundState state = _running(round);
        Phase current = _phaseOf(state);
        if (current != Phase.Overdue && (current != Phase.Recover || !_isHopeless(state))) {
            revert WrongPhase(round, current, Phase.Overdue);
        }
        _fail(round, entry, state);
    }

    /// @dev Whether too few committed for a closing. Those who did could not judge one, being too few for that as well.
    function _isHopeless(RoundState state) private view returns (bool) {
        uint256 committed = state.committed();
        return committed < quorum || 2 * committed <= state.drawn();
    }

    /// @dev Reverts unless a client has a reason to skip a round of all members, which otherwise waits for its quorum.
    function _onlyWithReason(uint64 round, RoundState state) private view {
        uint256 openedAt = state.openedAt();
        if (registry.changedAt() >= openedAt || block.number - openedAt >= 1 << 16) return;
        bool isLost = _round(round).seed == 0 && block.number - (openedAt + seedDelay) > HASHES_KEPT;
        if (!isLost) revert MembersUnchanged(round, registry.changedAt());
    }

    /// @dev The state of a round that has not ended.
    function _running(uint64 round) private view returns (RoundState state) {
        state = _round(round).state;
        Status status = state.status();
        if (status == Status.None || status >= Status.Closed) revert RoundEnded(round, _phaseOf(state));
    }

    /// @dev Reverts unless the caller, whose state this is, was drawn in `round`.
    function _onlyDrawn(uint64 round, ClientState state) private view {
        if (state.drawRound() != round) revert NotDrawn(round, msg.sender);
    }
    // slither-disable-end shadowing-local
}
