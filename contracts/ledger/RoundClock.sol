// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingLedger, Phase, Settings} from "../interfaces/ITrainingLedger.sol";
import {RoundState, Status} from "./RoundState.sol";

/// @title RoundClock
/// @notice The settings of a federation, and the phase of a round as a function of its state and the block number.
abstract contract RoundClock is ITrainingLedger {
    // Last block of each window, counted from the opening.
    uint256 internal immutable seedOffset;
    uint256 internal immutable drawOffset;
    // Block whose randomness orders the drawn clients, counted from the opening.
    uint256 internal immutable orderOffset;
    uint256 internal immutable sealOffset;
    uint256 internal immutable shareOffset;
    uint256 internal immutable commitOffset;
    uint256 internal immutable recoverOffset;
    uint256 internal immutable closeOffset;
    // The commit window again, as a commitment needs it.
    uint256 internal immutable commitFirst;
    uint256 internal immutable commitLength;

    uint16 internal immutable coordinatorGrace;
    uint16 internal immutable quorum;
    uint16 internal immutable maxClients;
    uint16 internal immutable absenceLimit;
    uint16 internal immutable absenceRounds;
    uint32 internal immutable maxSamples;
    bool internal immutable randao;
    uint32 internal immutable rounds;
    uint32 internal immutable repeats;

    constructor(Settings memory s) {
        seedOffset = _atLeastOne("seedDelay", s.seedDelay);
        drawOffset = seedOffset + _atLeastOne("drawWindow", s.drawWindow);
        orderOffset = drawOffset + _atLeastOne("orderDelay", s.orderDelay);
        sealOffset = orderOffset + _atLeastOne("sealWindow", s.sealWindow);
        shareOffset = sealOffset + _atLeastOne("shareWindow", s.shareWindow);
        commitOffset = shareOffset + _atLeastOne("commitWindow", s.commitWindow);
        recoverOffset = commitOffset + _atLeastOne("recoverWindow", s.recoverWindow);
        closeOffset = recoverOffset + _atLeastOne("closeWindow", s.closeWindow);
        commitFirst = shareOffset + 1;
        commitLength = s.commitWindow;
        coordinatorGrace = s.coordinatorGrace;
        quorum = _atLeastOne("quorum", s.quorum);
        if (s.maxClients < s.quorum) revert SettingOutOfRange("maxClients", s.maxClients);
        maxClients = s.maxClients;
        absenceLimit = _atLeastOne("absenceLimit", s.absenceLimit);
        absenceRounds = s.absenceRounds;
        if (s.maxSamples == 0) revert SettingOutOfRange("maxSamples", 0);
        maxSamples = s.maxSamples;
        randao = s.randao;
        if (s.rounds == 0) revert SettingOutOfRange("rounds", 0);
        rounds = s.rounds;
        repeats = s.repeats;
    }

    /// @inheritdoc ITrainingLedger
    function settings() external view returns (Settings memory) {
        return Settings({
            seedDelay: uint16(seedOffset),
            drawWindow: uint16(drawOffset - seedOffset),
            orderDelay: uint16(orderOffset - drawOffset),
            sealWindow: uint16(sealOffset - orderOffset),
            shareWindow: uint16(shareOffset - sealOffset),
            commitWindow: uint16(commitOffset - shareOffset),
            recoverWindow: uint16(recoverOffset - commitOffset),
            closeWindow: uint16(closeOffset - recoverOffset),
            coordinatorGrace: coordinatorGrace,
            quorum: quorum,
            maxClients: maxClients,
            absenceLimit: absenceLimit,
            absenceRounds: absenceRounds,
            maxSamples: maxSamples,
            randao: randao,
            rounds: rounds,
            repeats: repeats
        });
    }

    /// @dev The phase in which a transaction of this block finds a round.
    function _phaseOf(RoundState state) internal view returns (Phase) {
        Status status = state.status();
        if (status == Status.None) return Phase.None;
        if (status >= Status.Closed) return _ended(status);
        uint256 elapsed = block.number - state.openedAt();
        if (status == Status.Open) {
            if (elapsed <= seedOffset) return Phase.Seeding;
            if (elapsed <= drawOffset) return Phase.Draw;
            return elapsed <= sealOffset ? Phase.Seal : Phase.Overdue;
        }
        if (status == Status.Sealed) {
            if (elapsed <= shareOffset) return Phase.Share;
            if (elapsed <= commitOffset) return Phase.Commit;
            return elapsed <= recoverOffset ? Phase.Recover : Phase.Overdue;
        }
        return elapsed <= closeOffset ? Phase.Close : Phase.Overdue;
    }

    /// @dev Whether this block is in the window of blocks (`opens`, `ends`], counted from the opening of a round of
    /// this status.
    function _isBetween(RoundState state, Status status, uint256 opens, uint256 ends) internal view returns (bool) {
        unchecked {
            return state.isWithin(status, opens + 1, ends - opens, block.number);
        }
    }

    /// @dev What a transaction reverts with whose round is not {isWithin} the window of the phase it needs.
    function _wrongPhase(uint64 round_, RoundState state, Phase required) internal view {
        revert WrongPhase(round_, _phaseOf(state), required);
    }

    function _ended(Status status) private pure returns (Phase) {
        if (status == Status.Closed) return Phase.Closed;
        if (status == Status.Skipped) return Phase.Skipped;
        return status == Status.Failed ? Phase.Failed : Phase.Voided;
    }

    function _atLeastOne(bytes32 setting, uint16 value) private pure returns (uint16) {
        if (value == 0) revert SettingOutOfRange(setting, value);
        return value;
    }
}
