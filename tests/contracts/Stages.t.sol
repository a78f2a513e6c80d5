// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {BoundedFederation} from "./harness/BoundedFederation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Where updates are bounded: the stages in which shares are released, and how such rounds end.
contract StagesTest is BoundedFederation {
    // --- stages ---

    function test_TheNextStage_BeginsOnceEnoughReleasedInTheOneBefore() public {
        uint64 round = _toRecover(1);
        _refusesStage(0, round, 1);
        _release(1, round);
        _refusesStage(0, round, 2);
        _refusesStage(0, round, 40);
        _refusesStage(0, round, type(uint16).max);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Released(round, 1, _sketchHashOf(round), DIGEST, 1);
        _releaseIn(0, round, 1);
        _equal(ledger.round(round).stage, 1, "stage");
        _refusesStage(0, round, 2);
        _releaseIn(1, round, 1);
        _releaseIn(0, round, 2);
        _equal(ledger.round(round).stage, 2, "stage");
        _equal(ledger.round(round).released, 2, "released in the first stage");
    }

    function test_ThereAreAsManyStages_AsTheSettingsSay() public {
        uint64 round = _toRecover(2);
        for (uint16 stage = 1; stage <= 2; ++stage) {
            _releaseIn(0, round, stage);
            _releaseIn(1, round, stage);
        }
        _refusesStage(0, round, 3);
    }

    function test_EachReleasesOnceInAStage_AndInTheFirstOneBefore() public {
        uint64 round = _toRecover(2);
        _releaseIn(0, round, 1);
        _refuse(abi.encodeWithSelector(ITrainingLedger.AlreadyReleased.selector, round, 1));
        _releaseIn(0, round, 1);
        _refusesStage(2, round, 1);
        _release(2, round);
        _releaseIn(2, round, 1);
    }

    /// @dev What it releases now does not count for the stage that runs.
    function test_AStageThatBegan_TakesReleases_AfterTheNextOneBegan() public {
        uint64 round = _toRecover(3);
        _releaseIn(0, round, 1);
        _releaseIn(1, round, 1);
        _releaseIn(0, round, 2);
        _releaseIn(2, round, 1);
        _releaseIn(2, round, 2);
        _equal(ledger.round(round).stage, 2, "stage");
    }

    /// @dev Whether the stage begins in the window of the one before, or after it.
    function testFuzz_AStage_HasAWindowFromItsFirstRelease(uint16 waits) public {
        uint64 round = _toRecover(2);
        uint256 begins = vm.getBlockNumber() + waits;
        vm.roll(begins);
        _releaseIn(0, round, 1);
        _equal(ledger.round(round).recoverEnd, begins + _settings().recoverWindow, "end of the window");
        vm.roll(begins + 1);
        _releaseIn(1, round, 1);
        _equal(ledger.round(round).recoverEnd, begins + _settings().recoverWindow, "end of the window");
    }

    function test_AClosedRound_TakesReleasesOfTheFirstStageOnly() public {
        uint64 round = _toRecover(2);
        _releaseIn(0, round, 1);
        _close(COORDINATOR, round);
        _refusesStage(1, round, 1);
        uint64 end = ledger.round(round).recoverEnd;
        vm.roll(end);
        _release(2, round);
        vm.roll(end + 1);
        _refuse(_wrongPhase(round, Phase.Closed, Phase.Recover));
        _release(3, round);
    }

    function test_InANewRound_StagesBeginAnew() public {
        uint64 before = _toRecover(2);
        _releaseIn(0, before, 1);
        _releaseIn(1, before, 1);
        _close(COORDINATOR, before);
        uint64 round = _toRecover(2);
        _equal(ledger.round(round).stage, 0, "stage");
        _refusesStage(0, round, 2);
        _releaseIn(0, round, 1);
    }

    // --- ends ---

    function test_TheClock_FailsARound_WhoseSumCannotBeOpen() public {
        uint64 round = _toRecover(1);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
        _fail(round);
        _equal(ledger.failedRounds(), 1, "failed");
    }

    /// @dev However long members and coordinator are away, none of them has to open a second sum.
    function test_TheClock_DoesNotFailARound_WhoseSumMayBeOpen() public {
        uint64 round = _toRecover(2);
        _equal(ledger.round(round).closeEnd, type(uint64).max, "end of the closing");
        vm.roll(vm.getBlockNumber() + 1_000_000);
        _refusesFail(round, Phase.Recover);
        _release(2, round);
        _releaseIn(0, round, 1);
        vm.roll(vm.getBlockNumber() + 1_000_000);
        _refusesFail(round, Phase.Recover);
        _close(COORDINATOR, round);
        _inPhase(round, Phase.Closed);
    }

    /// @dev The way out where more lied than there are stages, or too few are left to release.
    function test_Members_JudgeThatNothingMayBeSummed_OnceTheLatestStageIsOver() public {
        uint64 round = _toRecover(2);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ReleasesListed.selector, round, 2);
        uint64 end = ledger.round(round).recoverEnd;
        vm.roll(end);
        _refusesNothing(0, round, refusal);
        _releaseIn(0, round, 1);
        vm.roll(end + 1);
        _refusesNothing(0, round, refusal);
        vm.roll(ledger.round(round).recoverEnd);
        _refusesNothing(0, round, refusal);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _judgeNothing(0, round);
        _judgeNothing(1, round);
        _inPhase(round, Phase.Recover);
        _judgeNothing(2, round);
        _inPhase(round, Phase.Failed);
    }

    function test_WhereTooFewCommitted_TheRoundFailsAtOnce() public {
        uint64 round = _committed(4, 2);
        _inPhase(round, Phase.Vouch);
        _as(STRANGER);
        ledger.fail(round);
        _inPhase(round, Phase.Failed);
    }

    /// @dev Of four who committed.
    function test_WhereTooFewVouched_TheRoundFailsOnceTheVouchersAreOver() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        _vouch(1, round);
        vm.roll(ledger.round(round).vouchEnd);
        _refusesFail(round, Phase.Vouch);
        vm.roll(ledger.round(round).vouchEnd + 1);
        uint256 before = vm.snapshotState();
        _as(STRANGER);
        ledger.fail(round);
        _inPhase(round, Phase.Failed);
        vm.revertToState(before);
        vm.roll(ledger.round(round).affirmEnd + 1);
        _release(0, round);
        _release(1, round);
        _refuse(abi.encodeWithSelector(ITrainingLedger.CommitsMissing.selector, round, 2, 4));
        _close(COORDINATOR, round);
        _as(STRANGER);
        ledger.fail(round);
        _inPhase(round, Phase.Failed);
    }

    function test_WhereEnoughVouched_TheRoundDoesNotFail() public {
        uint64 round = _toAffirm(3);
        _refusesFail(round, Phase.Affirm);
        vm.roll(ledger.round(round).affirmEnd + 1);
        _refusesFail(round, Phase.Recover);
    }

    function test_TheTurnOfTheCoordinator_BeginsWithTheRecovery() public {
        uint64 round = _toRecover(2);
        uint256 first = _closerFrom(round, members[2].account, 3, 3);
        require(first > ledger.round(round).affirmEnd + 3, "too early");
        vm.roll(first - 1);
        RoundView memory view_ = ledger.round(round);
        _refuse(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[2].account, first - 1));
        _close(members[2].account, round);
        vm.roll(first);
        _close(members[2].account, round);
        require(view_.phase == Phase.Recover, "another phase");
    }

    function test_AJudgement_BeforeTheRecovery_IsRefused() public {
        uint64 round = _toAffirm(4);
        _refusesNothing(0, round, _wrongPhase(round, Phase.Affirm, Phase.Recover));
    }
}
