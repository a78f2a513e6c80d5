// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FailureReason, ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice How rounds end: recovered and closed, failed, skipped.
contract EndingsTest is Federation {
    bytes32 private constant DIGEST = keccak256("digest");

    function setUp() public {
        _deploy(true);
        _join(3);
    }

    // --- recover, close ---

    function test_Recover_NamesTheSurvivors_InItsWindowOnly() public {
        uint64 round = _committed(3, 2);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.commitEnd);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Commit, Phase.Recover)
        );
        _as(COORDINATOR);
        ledger.recover(round, DIGEST);
        vm.roll(view_.recoverEnd);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Recovered(round, DIGEST, 2);
        _as(COORDINATOR);
        ledger.recover(round, DIGEST);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Close, Phase.Recover)
        );
        _as(COORDINATOR);
        ledger.recover(round, DIGEST);
    }

    function test_Recover_AfterItsWindow_IsRefused() public {
        uint64 round = _committed(3, 2);
        vm.roll(ledger.round(round).recoverEnd + 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Overdue, Phase.Recover)
        );
        _as(COORDINATOR);
        ledger.recover(round, DIGEST);
    }

    function test_Close_ReplacesTheModel_UpToItsDeadline() public {
        uint64 round = _recovered(3, 3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, round));
        _as(COORDINATOR);
        ledger.close(round, 0, DIGEST);
        vm.roll(ledger.round(round).closeEnd);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Closed(round, DIGEST, CONFIG);
        _as(COORDINATOR);
        ledger.close(round, DIGEST, CONFIG);
        _equal(ledger.currentModel(), DIGEST, "model");
        _equal(ledger.round(round).modelDigest, MODEL, "the model trained from");
    }

    function test_Close_AfterItsDeadline_IsRefused() public {
        uint64 round = _recovered(3, 3);
        vm.roll(ledger.round(round).closeEnd + 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Overdue, Phase.Close)
        );
        _as(COORDINATOR);
        ledger.close(round, DIGEST, DIGEST);
    }

    function test_AClosedRound_Cannot_BeClosedFailedOrSkipped() public {
        uint64 round = _closed(3, 3);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Closed, Phase.Close)
        );
        _as(COORDINATOR);
        ledger.close(round, DIGEST, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, round, Phase.Closed));
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, round, Phase.Closed));
        _as(STRANGER);
        ledger.skip(round);
    }

    // --- fail, skip ---

    function test_Anybody_MayFailAnOverdueRound_AndTheModelStands() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).sealEnd + 1);
        _inPhase(round, Phase.Overdue);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Failed(round, FailureReason.Deadline, DIGEST);
        _as(STRANGER);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST); // whatever reason is given
        _inPhase(round, Phase.Failed);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(_open(), 2, "next round");
    }

    function test_ARoundIsOverdue_WhenNotRecoveredOrNotClosedInTime() public {
        uint64 round = _committed(3, 3);
        vm.roll(ledger.round(round).recoverEnd);
        _inPhase(round, Phase.Recover);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
        _as(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        round = _recovered(3, 3);
        vm.roll(ledger.round(round).closeEnd);
        _inPhase(round, Phase.Close);
        vm.roll(ledger.round(round).closeEnd + 1);
        _inPhase(round, Phase.Overdue);
        _as(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        _inPhase(round, Phase.Failed);
    }

    function test_TheCoordinator_MayFailWithAReason_InRecoverAndClose() public {
        uint64 round = _committed(3, 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Failed(round, FailureReason.TooFewSurvivors, DIGEST);
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.TooFewSurvivors, DIGEST);
        round = _recovered(3, 3);
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidRelease, DIGEST);
        _inPhase(round, Phase.Failed);
    }

    function test_FailingWithoutAReasonOfItsOwn_IsRefused() public {
        uint64 round = _committed(3, 3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ReasonNotAllowed.selector, FailureReason.Deadline));
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.Deadline, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ReasonNotAllowed.selector, FailureReason.None));
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.None, DIGEST);
    }

    function test_TheCoordinator_Cannot_FailARoundInWhichClientsStillAct() public {
        uint64 round = _openAndDraw(2);
        _refusesFail(round, Phase.Draw);
        _seal(round);
        _refusesFail(round, Phase.Share);
        vm.roll(ledger.round(round).shareEnd + 1);
        _refusesFail(round, Phase.Commit);
    }

    function test_ARoundBelowTheQuorum_IsSkippedByAnybodyAfterItsDrawWindow() public {
        uint64 round = _openAndDraw(1);
        uint256 drawEnd = ledger.round(round).drawEnd;
        vm.roll(drawEnd);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.DrawStillOpen.selector, round, drawEnd));
        _as(STRANGER);
        ledger.skip(round);
        vm.roll(drawEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Skipped(round, 1);
        _as(STRANGER);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
        _equal(_open(), 2, "next round");
    }

    function test_ARoundBelowTheQuorum_MayStillBeSkippedWhenOverdue() public {
        uint64 round = _openAndDraw(1);
        vm.roll(ledger.round(round).sealEnd + 100);
        _as(STRANGER);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
    }

    function test_ARoundWithAQuorum_Cannot_BeSkipped() public {
        uint64 round = _openAndDraw(2);
        vm.roll(ledger.round(round).drawEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumReached.selector, round, 2, 2));
        _as(STRANGER);
        ledger.skip(round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, 9, Phase.None));
        _as(STRANGER);
        ledger.skip(9);
    }

    function _refusesFail(uint64 round, Phase current) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, Phase.Overdue));
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST);
    }
}
