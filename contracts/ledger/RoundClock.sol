// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingLedger, Phase, Settings} from "../interfaces/ITrainingLedger.sol";
import {MOST_STAGES} from "./ClientState.sol";
import {COMMIT_END, LONGEST_DRAW, RoundState, SEAL_END, SHARE_END, Status} from "./RoundState.sol";
import {AFFIRM_END, VOUCH_END, VouchState} from "./VouchState.sol";

/// @title RoundClock
/// @notice The settings of a federation, and the phase of a round as a function of its state and the block number.
abstract contract RoundClock is ITrainingLedger {
    uint32 internal constant EVERYONE = 1_000_000;

    uint256 internal immutable seedDelay;
    uint256 internal immutable drawWindow;
    uint256 internal immutable orderDelay;
    uint256 internal immutable sealWindow;
    uint256 internal immutable shareWindow;
    uint256 internal immutable commitWindow;
    /// @dev Zero where updates are not bounded: there is no vouch phase then, no affirm phase, and one stage of
    /// releases.
    uint256 internal immutable vouchWindow;
    uint256 internal immutable affirmWindow;
    uint256 internal immutable recoverWindow;

    uint16 internal immutable coordinatorGrace;
    uint16 internal immutable quorum;
    uint16 internal immutable releases;
    uint16 internal immutable stages;
    uint16 internal immutable judges;
    uint16 internal immutable maxClients;
    uint16 internal immutable absenceLimit;
    uint32 internal immutable maxSamples;
    bool internal immutable randao;
    uint32 internal immutable rounds;
    uint32 internal immutable repeats;

    /// @dev The end of what the clock does not end.
    uint256 internal constant NEVER = type(uint64).max;

    constructor(Settings memory s) {
        seedDelay = _atLeastOne("seedDelay", s.seedDelay);
        drawWindow = _atLeastOne("drawWindow", s.drawWindow);
        orderDelay = _atLeastOne("orderDelay", s.orderDelay);
        sealWindow = _atLeastOne("sealWindow", s.sealWindow);
        shareWindow = _atLeastOne("shareWindow", s.shareWindow);
        commitWindow = _atLeastOne("commitWindow", s.commitWindow);
        vouchWindow = s.vouchWindow;
        affirmWindow = s.affirmWindow;
        if ((s.vouchWindow == 0) != (s.affirmWindow == 0)) revert SettingOutOfRange("affirmWindow", s.affirmWindow);
        if (s.stages > (s.vouchWindow == 0 ? 0 : MOST_STAGES)) revert SettingOutOfRange("stages", s.stages);
        stages = s.stages;
        recoverWindow = _atLeastOne("recoverWindow", s.recoverWindow);
        coordinatorGrace = s.coordinatorGrace;
        // Others than the coordinator may close in the half of the window that is left after two graces.
        if (uint256(s.recoverWindow) < 4 * uint256(s.coordinatorGrace)) {
            revert SettingOutOfRange("recoverWindow", s.recoverWindow);
        }
        quorum = _atLeastOne("quorum", s.quorum);
        releases = _upToQuorum("releases", s.releases);
        judges = _upToQuorum("judges", s.judges);
        if (s.maxClients < s.quorum) revert SettingOutOfRange("maxClients", s.maxClients);
        maxClients = s.maxClients;
        absenceLimit = _atLeastOne("absenceLimit", s.absenceLimit);
        if (s.maxSamples == 0) revert SettingOutOfRange("maxSamples", 0);
        maxSamples = s.maxSamples;
        randao = s.randao;
        if (s.rounds == 0) revert SettingOutOfRange("rounds", 0);
        rounds = s.rounds;
        repeats = s.repeats;
    }

    /// @dev The phase in which a transaction of this block finds a round.
    function _phaseOf(uint64 round_, RoundState state) internal view returns (Phase) {
        Status status = state.status();
        if (status == Status.None) return Phase.None;
        if (status >= Status.Closed) return _ended(status);
        uint256 elapsed = block.number - state.openedAt();
        if (status < Status.Sealed) {
            if (elapsed <= seedDelay) return Phase.Seeding;
            if (status == Status.Open && elapsed <= _drawEnd(state)) return Phase.Draw;
            return elapsed <= _sealEnd(state) ? Phase.Seal : Phase.Overdue;
        }
        if (elapsed <= _shareEnd(state)) return Phase.Share;
        if (elapsed <= _commitEnd(state)) return Phase.Commit;
        VouchState vouching = _vouchingOf(round_);
        if (vouchWindow != 0) {
            if (elapsed <= _vouchEnd(state, vouching)) return Phase.Vouch;
            if (elapsed <= _affirmEnd(state, vouching)) return Phase.Affirm;
        }
        return elapsed <= _closeEnd(state, _recoverEnd(state, vouching)) ? Phase.Recover : Phase.Overdue;
    }

    // The last block of each phase, counted from the opening: the recorded one, else the end of the phase before and
    // the window. Python has the same in chain/records/phases.py.

    /// @dev A round of all members waits for its quorum: the draw that reaches it then records the end.
    function _drawEnd(RoundState state) internal view returns (uint256) {
        uint256 recorded = state.drawEnd();
        if (recorded != 0) return recorded;
        bool waits = state.status() == Status.Open && state.samplingRate() == EVERYONE && state.drawn() < quorum;
        return waits ? LONGEST_DRAW : _drawWindowEnd();
    }

    function _drawWindowEnd() internal view returns (uint256) {
        return seedDelay + drawWindow;
    }

    /// @dev The block whose randomness orders the drawn clients.
    function _orderBlock(RoundState state) internal view returns (uint256) {
        return _drawEnd(state) + orderDelay;
    }

    function _sealEnd(RoundState state) internal view returns (uint256) {
        uint256 recorded = state.recordedEnd(SEAL_END);
        return recorded != 0 ? recorded : _orderBlock(state) + sealWindow;
    }

    function _shareEnd(RoundState state) internal view returns (uint256) {
        uint256 recorded = state.recordedEnd(SHARE_END);
        return recorded != 0 ? recorded : _sealEnd(state) + shareWindow;
    }

    function _commitEnd(RoundState state) internal view returns (uint256) {
        uint256 recorded = state.recordedEnd(COMMIT_END);
        return recorded != 0 ? recorded : _shareEnd(state) + commitWindow;
    }

    /// @dev The block whose hash the sketch of the updates follows from; where they are not bounded, the end of
    /// commits.
    function _sketchBlock(RoundState state) internal view returns (uint256) {
        return vouchWindow == 0 ? _commitEnd(state) : _commitEnd(state) + orderDelay;
    }

    function _vouchEnd(RoundState state, VouchState vouching) internal view returns (uint256) {
        uint256 recorded = vouching.recordedEnd(VOUCH_END);
        return recorded != 0 ? recorded : _sketchBlock(state) + vouchWindow;
    }

    function _affirmEnd(RoundState state, VouchState vouching) internal view returns (uint256) {
        if (vouchWindow == 0) return _commitEnd(state);
        uint256 recorded = vouching.recordedEnd(AFFIRM_END);
        return recorded != 0 ? recorded : _vouchEnd(state, vouching) + affirmWindow;
    }

    /// @dev A stage of releases has the window that the first one has.
    function _recoverEnd(RoundState state, VouchState vouching) internal view returns (uint256) {
        uint256 stageAt = vouching.stageAt();
        return (stageAt == 0 ? _affirmEnd(state, vouching) : stageAt - state.openedAt()) + recoverWindow;
    }

    /// @dev The last block in which the round can be closed. Where updates are bounded, the clock does not fail a round
    /// whose sum may be open: the members would have to open a second one.
    function _closeEnd(RoundState state, uint256 recoverEnd) internal view returns (uint256) {
        if (vouchWindow == 0 || state.status() < Status.Sealed || state.released() < releases) return recoverEnd;
        return NEVER;
    }

    /// @dev Zero where updates are not bounded.
    function _vouchingOf(uint64 round_) internal view virtual returns (VouchState);

    /// @dev Whether this block is in the window of blocks (`opens`, `ends`], counted from the opening of a round of
    /// this status.
    function _isBetween(RoundState state, Status status, uint256 opens, uint256 ends) internal view returns (bool) {
        return state.isWithin(status, opens, ends, block.number);
    }

    /// @dev What a transaction reverts with whose round is not in the phase that it needs.
    function _wrongPhase(uint64 round_, RoundState state, Phase required) internal view {
        revert WrongPhase(round_, _phaseOf(round_, state), required);
    }

    function _ended(Status status) private pure returns (Phase) {
        if (status == Status.Closed) return Phase.Closed;
        if (status == Status.Skipped) return Phase.Skipped;
        return status == Status.Failed ? Phase.Failed : Phase.Voided;
    }

    /// @dev More clients than the quorum may be missing in a round that goes well.
    function _upToQuorum(bytes32 setting, uint16 value) private view returns (uint16) {
        if (value > quorum) revert SettingOutOfRange(setting, value);
        return _atLeastOne(setting, value);
    }

    function _atLeastOne(bytes32 setting, uint16 value) private pure returns (uint16) {
        if (value == 0) revert SettingOutOfRange(setting, value);
        return value;
    }
}
