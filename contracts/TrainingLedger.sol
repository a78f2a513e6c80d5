// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "./interfaces/IClientRegistry.sol";
import {Phase, Settings, Terms} from "./interfaces/ITrainingLedger.sol";
import {ClientState, COMMITTED, RELEASED, SHARED, stageFlag} from "./ledger/ClientState.sol";
import {DrawPhase} from "./ledger/DrawPhase.sol";
import {JudgePhase} from "./ledger/JudgePhase.sol";
import {RoundClock} from "./ledger/RoundClock.sol";
import {COMMIT_END, newRoundState, RoundState, SHARE_END, Status} from "./ledger/RoundState.sol";
import {RoundStore} from "./ledger/RoundStore.sol";
import {SealPhase} from "./ledger/SealPhase.sol";
import {VouchPhase} from "./ledger/VouchPhase.sol";
import {VouchState} from "./ledger/VouchState.sol";

/// @title TrainingLedger
/// @notice See {ITrainingLedger}. {RoundClock} says when, {RoundStore} holds what, {DrawPhase} and {SealPhase} do the
/// first half of a round, this contract the second, {VouchPhase} what bounds on updates add, {JudgePhase} what its
/// clients say of it. Nothing is upgradeable, payable or pausable, and no function deletes.
contract TrainingLedger is DrawPhase, SealPhase, VouchPhase, JudgePhase {
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
            if (ended.status() < Status.Closed) revert RoundRunning(previous, _phaseOf(previous, ended));
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

    function release(uint64 round, bytes32 blockHash, bytes32 digest, uint16 stage) external direct {
        Round storage entry = _round(round);
        RoundState roundState = entry.state;
        VouchState vouching = _vouchingOf(round);
        bool isClosed = roundState.status() == Status.Closed;
        uint256 ends = _recoverEnd(roundState, vouching);
        if (!isClosed) ends = _closeEnd(roundState, ends);
        Status needed = isClosed ? Status.Closed : Status.Sealed;
        if (!_isBetween(roundState, needed, _affirmEnd(roundState, vouching), ends)) {
            _wrongPhase(round, roundState, Phase.Recover);
        }
        _onlyOfSketch(round, entry, blockHash);
        Client storage client = _client(msg.sender);
        ClientState state = client.state;
        _onlyDrawn(round, state);
        uint256 flag = RELEASED;
        if (stage == 0) {
            entry.state = roundState.withRelease();
        } else {
            if (isClosed || !state.has(RELEASED)) revert StageNotOpen(round, stage);
            entry.vouching = _inStage(round, roundState, vouching, stage);
            flag = stageFlag(stage);
        }
        if (state.has(flag)) revert AlreadyReleased(round, state.client());
        client.state = state.withFlag(flag);
        emit Released(round, state.client(), blockHash, digest, stage);
    }

    function close(uint64 round, bytes32 modelDigest, bytes32 metricsDigest) external direct {
        Round storage entry = _round(round);
        RoundState state = entry.state;
        if (_phaseOf(round, state) != Phase.Recover) _wrongPhase(round, state, Phase.Recover);
        VouchState vouching = _vouchingOf(round);
        uint256 left = _left(state, vouching, Phase.Recover);
        if (_isHopeless(state, left)) revert CommitsMissing(round, uint32(left), state.drawn());
        if (state.released() < releases) revert ReleasesMissing(round, state.released(), releases);
        bool isCoordinator = msg.sender == coordinator;
        if (!isCoordinator && !_client(msg.sender).state.isAt(round, COMMITTED, COMMITTED)) {
            revert NotCommitted(round, msg.sender);
        }
        uint256 lot = isCoordinator ? 0 : uint256(keccak256(abi.encode(entry.orderRoot, msg.sender)));
        _onlyCoordinator(state.openedAt() + _affirmEnd(state, vouching), lot % (uint256(coordinatorGrace) + 1));
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
        Phase current = _phaseOf(round, state);
        bool isHopeless = current >= Phase.Vouch && current <= Phase.Recover
            && _isHopeless(state, _left(state, _vouchingOf(round), current));
        if (current != Phase.Overdue && !isHopeless) {
            revert WrongPhase(round, current, Phase.Overdue);
        }
        _fail(round, entry, state);
    }

    /// @dev Whether too few are left for a closing. Where too few committed, they could not judge one either.
    function _isHopeless(RoundState state, uint256 left) private view returns (bool) {
        return left < quorum || 2 * left <= state.drawn();
    }

    /// @dev How many may be summed in a round in this phase: those who committed and, where updates are bounded,
    /// vouched in time.
    function _left(RoundState state, VouchState vouching, Phase current) private view returns (uint256) {
        return vouchWindow == 0 || current == Phase.Vouch ? state.committed() : vouching.vouched();
    }

    /// @dev One more release in a stage after the first. The next stage begins with its first release, once as many
    /// have released in the one before as a closing needs.
    function _inStage(uint64 round, RoundState state, VouchState vouching, uint256 stage)
        private
        view
        returns (VouchState)
    {
        uint256 latest = vouching.stage();
        if (stage < latest) return vouching;
        if (stage > latest) {
            uint256 listed = latest == 0 ? state.released() : vouching.releasedInStage();
            if (stage != latest + 1 || stage > stages || listed < releases) revert StageNotOpen(round, stage);
            vouching = vouching.withStage(block.number);
        }
        return vouching.withStageRelease();
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
        if (status == Status.None || status >= Status.Closed) revert RoundEnded(round, _phaseOf(round, state));
    }

    /// @dev Reverts unless the caller, whose state this is, was drawn in `round`.
    function _onlyDrawn(uint64 round, ClientState state) private view {
        if (state.drawRound() != round) revert NotDrawn(round, msg.sender);
    }
    // slither-disable-end shadowing-local
}
