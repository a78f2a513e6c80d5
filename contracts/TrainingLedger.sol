// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree} from "./CooperationTree.sol";
import {IClientRegistry} from "./interfaces/IClientRegistry.sol";
import {FailureReason, Phase, Settings, Terms} from "./interfaces/ITrainingLedger.sol";
import {ClientState, COMMITTED, RELEASED, SHARED} from "./ledger/ClientState.sol";
import {DisputePhase} from "./ledger/DisputePhase.sol";
import {DrawPhase} from "./ledger/DrawPhase.sol";
import {RoundClock} from "./ledger/RoundClock.sol";
import {COMMIT_END, newRoundState, RoundState, SHARE_END, Status} from "./ledger/RoundState.sol";
import {RoundStore} from "./ledger/RoundStore.sol";
import {SealPhase} from "./ledger/SealPhase.sol";

/// @title TrainingLedger
/// @notice See {ITrainingLedger}. {RoundClock} says when, {RoundStore} holds what, {DrawPhase} and {SealPhase} do the
/// first half of a round, this contract the second, {DisputePhase} what may come after. Nothing is upgradeable, payable
/// or pausable, and no function deletes.
contract TrainingLedger is DrawPhase, SealPhase, DisputePhase {
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
            _onlyCoordinator(ended.endedAt());
        }
        uint32 closed = closedRounds;
        if (closed == rounds || previous >= uint256(rounds) + repeats) revert FederationOver(previous, closed);
        if (modelDigest != currentModel) revert WrongModel(modelDigest, currentModel);
        round = previous + 1;
        uint32 samplingRate = _nextRate(round);
        currentRound = round;
        _round(round).model = modelDigest;
        bool follows = previous != 0 && previous == lastClosed;
        uint256 awaited = _awaited(round, samplingRate, barred);
        _round(round).state = newRoundState(block.number, samplingRate, follows, awaited);
        uint64 seedBlock = uint64(block.number + seedDelay);
        emit RoundOpened(
            round, modelDigest, config, samplingRate, uint64(block.number), seedBlock, uint32(barred.length)
        );
    }

    function skip(uint64 round) external direct {
        RoundState state = _running(round);
        uint256 drawEnd = state.openedAt() + _drawEnd(state);
        if (block.number <= drawEnd) revert DrawStillOpen(round, drawEnd);
        if (state.drawn() >= quorum) revert QuorumReached(round, state.drawn(), quorum);
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
        _recovering(round);
        Client storage client = _client(msg.sender);
        ClientState state = client.state;
        _onlyDrawn(round, state);
        if (state.has(RELEASED)) revert AlreadyReleased(round, state.client());
        client.state = state.withFlag(RELEASED);
        emit Released(round, state.client(), digest);
    }

    function recover(uint64 round, bytes32 digest) external direct {
        Round storage entry = _recovering(round);
        RoundState state = entry.state;
        _onlyCoordinator(state.openedAt() + _commitEnd(state));
        entry.state = state.withRecovery(block.number);
        emit Recovered(round, digest, state.committed());
    }

    function close(uint64 round, bytes32 modelDigest, bytes32 metricsDigest) external direct {
        Round storage entry = _round(round);
        RoundState state = entry.state;
        if (_phaseOf(state) != Phase.Close) _wrongPhase(round, state, Phase.Close);
        _onlyCoordinator(state.openedAt() + _recoverEnd(state));
        if (modelDigest == 0) revert ZeroDigest(round);
        entry.state = state.ended(Status.Closed, block.number);
        currentModel = modelDigest;
        lastClosed = round;
        ++closedRounds;
        emit Closed(round, modelDigest, metricsDigest);
    }

    function fail(uint64 round, FailureReason reason, bytes32 evidence) external direct {
        RoundState state = _running(round);
        Phase current = _phaseOf(state);
        if (current == Phase.Overdue) {
            reason = FailureReason.Deadline;
        } else {
            if (current != Phase.Recover && current != Phase.Close) revert WrongPhase(round, current, Phase.Overdue);
            _onlyCoordinator(state.openedAt() + (current == Phase.Recover ? _commitEnd(state) : _recoverEnd(state)));
            if (reason <= FailureReason.Deadline) revert ReasonNotAllowed(reason);
        }
        _round(round).state = state.ended(Status.Failed, block.number);
        emit Failed(round, reason, evidence);
    }

    function reportAbsences(uint64 round, address[] calldata accounts_) external direct {
        RoundState state = _round(round).state;
        uint64 current = currentRound;
        RoundState newest = _round(current).state;
        uint64 latest = newest.status() < Status.Closed && current != 0 ? current - 1 : current;
        if (round != latest || state.status() != Status.Closed) revert NotLatestClosed(round, latest);
        // A report may make clients sit out, from the next round on: nobody is taken out of a round that still draws.
        uint256 drawEnd = newest.openedAt() + _drawEnd(newest);
        if (latest != current && block.number <= drawEnd) revert DrawStillOpen(current, drawEnd);
        uint256 absent = state.drawn() - state.committed();
        if (accounts_.length != absent) revert ReportIncomplete(accounts_.length, absent);
        address before = address(0);
        for (uint256 i = 0; i < absent; ++i) {
            if (accounts_[i] <= before) revert ReportNotAscending(accounts_[i]);
            before = accounts_[i];
            _countAbsence(round, current, before);
        }
    }

    function partners(uint32 position, uint32 n) external pure returns (uint32[] memory) {
        return CooperationTree.partners(position, n);
    }

    /// @dev Counts the absence of an account in `round`, the latest ended one, unless it was counted before.
    function _countAbsence(uint64 round, uint64 current, address account) private {
        ClientState client = _client(account).state;
        if (client.reported() == round) return;
        if (!client.drewIn(round) || client.committedIn(round)) revert NotAbsent(round, account);
        uint64 until = client.sitsOutUntil();
        // Written before and after the call, so that a registry that called back could not count twice.
        _client(account).state = client.withAbsence(round, until);
        // One call for each absent account; the registry is trusted since the deployment.
        // slither-disable-next-line calls-loop,reentrancy-benign
        if (registry.recordAbsence(account) % absenceLimit == 0) {
            _client(account).state = client.withAbsence(round, current + absenceRounds);
        }
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

    /// @dev The round, which must be in its recover phase.
    function _recovering(uint64 round) private view returns (Round storage entry) {
        entry = _round(round);
        RoundState state = entry.state;
        if (_phaseOf(state) != Phase.Recover) _wrongPhase(round, state, Phase.Recover);
    }
    // slither-disable-end shadowing-local
}
