// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "../../contracts/interfaces/IClientRegistry.sol";
import {FailureReason, ITrainingLedger, Phase, RoundView, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Phases, windows, callers and endings of rounds. Draws and orders have tests of their own.
contract RoundsTest is Federation {
    bytes32 private constant DIGEST = keccak256("digest");

    function setUp() public {
        _deploy(true);
        _join(3);
    }

    // --- deployment ---

    function test_Deployment_RefusesARegistryOfAnotherLedger() public {
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongRegistry.selector, address(registry), address(ledger))
        );
        _deployLedger(registry, _settings());
    }

    function test_Deployment_RefusesSettingsThatCannotWork() public {
        Settings memory s = _settings();
        s.seedDelay = 0;
        _refusedSettings(s, "seedDelay", 0);
        s = _settings();
        s.closeWindow = 0;
        _refusedSettings(s, "closeWindow", 0);
        s = _settings();
        s.quorum = 5;
        _refusedSettings(s, "maxClients", 4);
        s = _settings();
        s.absenceLimit = 0;
        _refusedSettings(s, "absenceLimit", 0);
        s = _settings();
        s.maxSamples = 0;
        _refusedSettings(s, "maxSamples", 0);
    }

    function test_Settings_AreThoseOfTheDeployment() public view {
        _equal(keccak256(abi.encode(ledger.settings())), keccak256(abi.encode(_settings())), "settings");
        require(ledger.coordinator() == COORDINATOR && address(ledger.registry()) == address(registry), "parties");
    }

    // --- open ---

    function test_TheFirstRound_SetsTheModel() public {
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.RoundOpened(1, MODEL, CONFIG, 500_000, uint64(block.number), uint64(block.number + 2));
        vm.prank(COORDINATOR);
        _equal(ledger.open(MODEL, CONFIG, 500_000), 1, "round");
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.currentRound(), 1, "current round");
        RoundView memory view_ = ledger.round(1);
        uint256 b = block.number;
        _equal(view_.openedAt, b, "openedAt");
        _equal(view_.seedBlock, b + 2, "seedBlock");
        _equal(view_.drawEnd, b + 12, "drawEnd");
        _equal(view_.sealEnd, b + 17, "sealEnd");
        _equal(view_.shareEnd, b + 23, "shareEnd");
        _equal(view_.commitEnd, b + 30, "commitEnd");
        _equal(view_.recoverEnd, b + 38, "recoverEnd");
        _equal(view_.closeEnd, b + 47, "closeEnd");
        _equal(view_.samplingRate, 500_000, "rate");
        _equal(view_.modelDigest, MODEL, "the round's model");
    }

    function test_ARoundThatDoesNotExist_IsAllZero() public view {
        RoundView memory empty;
        _equal(keccak256(abi.encode(ledger.round(7))), keccak256(abi.encode(empty)), "view");
        _inPhase(7, Phase.None);
    }

    function test_ASecondRound_Cannot_OpenWhileOneRuns() public {
        uint64 round = _open(EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundRunning.selector, round, Phase.Seeding));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }

    function test_ARound_OpensOnlyOnTheCurrentModel() public {
        _closed(3, 3);
        bytes32 current = keccak256(abi.encode("model", uint64(1)));
        _equal(ledger.currentModel(), current, "model");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, MODEL, current));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }

    function test_OpeningWithNoModelOrAnImpossibleRate_IsRefused() public {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, 1));
        vm.prank(COORDINATOR);
        ledger.open(0, CONFIG, EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplingRateOutOfRange.selector, 0));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, 0);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplingRateOutOfRange.selector, EVERYONE + 1));
        vm.prank(COORDINATOR);
        ledger.open(MODEL, CONFIG, EVERYONE + 1);
    }

    // --- who may act for the coordinator ---

    function test_AMember_MayOpenAfterTheGrace_AStrangerNever() public {
        uint256 until = 100 + 3; // deployed in block 100
        vm.roll(until);
        _refusesAllButTheCoordinator(until);
        vm.roll(until + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        vm.prank(STRANGER);
        ledger.open(MODEL, CONFIG, EVERYONE);
        vm.prank(members[0].account);
        _equal(ledger.open(MODEL, CONFIG, EVERYONE), 1, "round");
    }

    function test_AMember_MayOpenTheNextRoundAfterTheGrace() public {
        _closed(3, 3);
        bytes32 model = ledger.currentModel();
        uint256 until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until)
        );
        vm.prank(members[0].account);
        ledger.open(model, CONFIG, EVERYONE);
        vm.roll(until + 1);
        vm.prank(members[0].account);
        _equal(ledger.open(model, CONFIG, EVERYONE), 2, "round");
    }

    function test_AMember_MayRecoverAndCloseAfterTheGrace() public {
        uint64 round = _committed(3, 3);
        uint256 until = ledger.round(round).commitEnd + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, until)
        );
        vm.prank(members[1].account);
        ledger.recover(round, DIGEST);
        vm.roll(until + 1);
        vm.prank(members[1].account);
        ledger.recover(round, DIGEST);
        until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, until)
        );
        vm.prank(members[1].account);
        ledger.close(round, DIGEST, DIGEST);
        vm.roll(until + 1);
        vm.prank(members[1].account);
        ledger.close(round, DIGEST, DIGEST);
        _inPhase(round, Phase.Closed);
    }

    function test_AStranger_Cannot_RecoverCloseOrFail() public {
        uint64 round = _committed(3, 3);
        uint256 until = ledger.round(round).commitEnd + 3;
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, STRANGER, until);
        vm.expectRevert(refusal);
        vm.prank(STRANGER);
        ledger.recover(round, DIGEST);
        vm.expectRevert(refusal);
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.TooFewShares, DIGEST);
        vm.roll(until + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.TooFewShares, DIGEST);
    }

    // --- share, commit, release ---

    function test_Share_IsAcceptedInItsWindowOnly() public {
        uint64 round = _openAndDraw(3);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.drawEnd + 1);
        _refusesShare(round, Phase.Seal);
        _seal(round);
        _share(0, round); // in the very block of the order
        vm.roll(view_.shareEnd);
        _share(1, round);
        vm.roll(view_.shareEnd + 1);
        _refusesShare(round, Phase.Commit);
    }

    function test_Commit_IsAcceptedInItsWindowOnly() public {
        uint64 round = _sealed(3);
        RoundView memory view_ = ledger.round(round);
        _share(0, round);
        _share(1, round);
        _share(2, round);
        vm.roll(view_.shareEnd);
        _refusesCommit(round, Phase.Share);
        vm.roll(view_.shareEnd + 1);
        _commit(0, round);
        vm.roll(view_.commitEnd);
        _commit(1, round);
        vm.roll(view_.commitEnd + 1);
        _refusesCommit(round, Phase.Recover);
        _equal(ledger.round(round).committed, 2, "committed");
    }

    function test_Release_IsAcceptedInItsWindowOnly() public {
        uint64 round = _sealed(3);
        _share(0, round);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.commitEnd);
        _refusesRelease(round, Phase.Commit);
        vm.roll(view_.commitEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Released(round, 1, DIGEST);
        vm.prank(members[0].account);
        ledger.release(round, DIGEST);
        vm.roll(view_.recoverEnd);
        vm.prank(members[1].account);
        ledger.release(round, DIGEST); // drawn is enough
        vm.roll(view_.recoverEnd + 1);
        _refusesRelease(round, Phase.Overdue);
    }

    function test_Release_EndsWithTheRecovery() public {
        uint64 round = _recovered(3, 3);
        _refusesRelease(round, Phase.Close);
    }

    function test_EachRecord_IsAcceptedOnce() public {
        uint64 round = _sealed(3);
        _share(0, round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyShared.selector, round, 1));
        _share(0, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyCommitted.selector, round, 1));
        _commit(0, round);
        vm.roll(ledger.round(round).commitEnd + 1);
        vm.prank(members[0].account);
        ledger.release(round, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyReleased.selector, round, 1));
        vm.prank(members[0].account);
        ledger.release(round, DIGEST);
    }

    function test_AClientThatWasNotDrawn_Cannot_ShareCommitOrRelease() public {
        uint64 round = _sealed(2);
        address third = members[2].account;
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.NotDrawn.selector, round, third);
        vm.expectRevert(refusal);
        vm.prank(third);
        ledger.share(round, DIGEST);
        vm.roll(ledger.round(round).shareEnd + 1);
        vm.expectRevert(refusal);
        vm.prank(third);
        ledger.commit(round, DIGEST, DIGEST);
        vm.roll(ledger.round(round).commitEnd + 1);
        vm.expectRevert(refusal);
        vm.prank(third);
        ledger.release(round, DIGEST);
    }

    function test_AClientThatDidNotShare_Cannot_Commit() public {
        uint64 round = _sealed(3);
        vm.roll(ledger.round(round).shareEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotShared.selector, round, 1));
        _commit(0, round);
    }

    function test_RecordsOfAnEarlierRound_DoNotCountInTheNext() public {
        _closed(3, 3);
        uint64 round = _sealed(2);
        _refusesShareOf(members[2].account, round, abi.encodeWithSelector(
            ITrainingLedger.NotDrawn.selector, round, members[2].account
        ));
        vm.roll(ledger.round(round).shareEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotShared.selector, round, 1));
        _commit(0, round);
        _refusesShareOf(members[0].account, 1, abi.encodeWithSelector(
            ITrainingLedger.WrongPhase.selector, 1, Phase.Closed, Phase.Share
        ));
    }

    // --- recover, close ---

    function test_Recover_NamesTheSurvivors_InItsWindowOnly() public {
        uint64 round = _committed(3, 2);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.commitEnd);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Commit, Phase.Recover)
        );
        vm.prank(COORDINATOR);
        ledger.recover(round, DIGEST);
        vm.roll(view_.recoverEnd);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Recovered(round, DIGEST, 2);
        vm.prank(COORDINATOR);
        ledger.recover(round, DIGEST);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Close, Phase.Recover)
        );
        vm.prank(COORDINATOR);
        ledger.recover(round, DIGEST);
    }

    function test_Recover_AfterItsWindow_IsRefused() public {
        uint64 round = _committed(3, 2);
        vm.roll(ledger.round(round).recoverEnd + 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Overdue, Phase.Recover)
        );
        vm.prank(COORDINATOR);
        ledger.recover(round, DIGEST);
    }

    function test_Close_ReplacesTheModel_UpToItsDeadline() public {
        uint64 round = _recovered(3, 3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, round));
        vm.prank(COORDINATOR);
        ledger.close(round, 0, DIGEST);
        vm.roll(ledger.round(round).closeEnd);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Closed(round, DIGEST, CONFIG);
        vm.prank(COORDINATOR);
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
        vm.prank(COORDINATOR);
        ledger.close(round, DIGEST, DIGEST);
    }

    function test_AClosedRound_Cannot_BeClosedFailedOrSkipped() public {
        uint64 round = _closed(3, 3);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Closed, Phase.Close)
        );
        vm.prank(COORDINATOR);
        ledger.close(round, DIGEST, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, round, Phase.Closed));
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, round, Phase.Closed));
        ledger.skip(round);
    }

    // --- fail, skip ---

    function test_Anybody_MayFailAnOverdueRound_AndTheModelStands() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).sealEnd + 1);
        _inPhase(round, Phase.Overdue);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Failed(round, FailureReason.Deadline, DIGEST);
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST); // whatever reason is given
        _inPhase(round, Phase.Failed);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(_open(EVERYONE), 2, "next round");
    }

    function test_ARoundIsOverdue_WhenNotRecoveredOrNotClosedInTime() public {
        uint64 round = _committed(3, 3);
        vm.roll(ledger.round(round).recoverEnd);
        _inPhase(round, Phase.Recover);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        round = _recovered(3, 3);
        vm.roll(ledger.round(round).closeEnd);
        _inPhase(round, Phase.Close);
        vm.roll(ledger.round(round).closeEnd + 1);
        _inPhase(round, Phase.Overdue);
        vm.prank(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        _inPhase(round, Phase.Failed);
    }

    function test_TheCoordinator_MayFailWithAReason_InRecoverAndClose() public {
        uint64 round = _committed(3, 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Failed(round, FailureReason.TooFewSurvivors, DIGEST);
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.TooFewSurvivors, DIGEST);
        round = _recovered(3, 3);
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidRelease, DIGEST);
        _inPhase(round, Phase.Failed);
    }

    function test_FailingWithoutAReasonOfItsOwn_IsRefused() public {
        uint64 round = _committed(3, 3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ReasonNotAllowed.selector, FailureReason.Deadline));
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.Deadline, DIGEST);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.ReasonNotAllowed.selector, FailureReason.None));
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.None, DIGEST);
    }

    function test_TheCoordinator_Cannot_FailARoundInWhichClientsStillAct() public {
        uint64 round = _openAndDraw(3);
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
        ledger.skip(round);
        vm.roll(drawEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Skipped(round, 1);
        vm.prank(STRANGER);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
        _equal(_open(EVERYONE), 2, "next round");
    }

    function test_ARoundBelowTheQuorum_MayStillBeSkippedWhenOverdue() public {
        uint64 round = _openAndDraw(1);
        vm.roll(ledger.round(round).sealEnd + 100);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
    }

    function test_ARoundWithAQuorum_Cannot_BeSkipped() public {
        uint64 round = _openAndDraw(2);
        vm.roll(ledger.round(round).drawEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumReached.selector, round, 2, 2));
        ledger.skip(round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, 9, Phase.None));
        ledger.skip(9);
    }

    // --- helpers ---

    function _refusedSettings(Settings memory s, bytes32 setting, uint256 value) private {
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
        vm.mockCall(address(registry), abi.encodeCall(IClientRegistry.ledger, ()), abi.encode(next));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SettingOutOfRange.selector, setting, value));
        _deployLedger(registry, s);
    }

    function _refusesAllButTheCoordinator(uint256 until) private {
        address member = members[0].account;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, member, until));
        vm.prank(member);
        ledger.open(MODEL, CONFIG, EVERYONE);
    }

    function _refusesShareOf(address account, uint64 round, bytes memory refusal) private {
        vm.expectRevert(refusal);
        vm.prank(account);
        ledger.share(round, DIGEST);
    }

    function _refusesShare(uint64 round, Phase current) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, Phase.Share));
        vm.prank(members[2].account);
        ledger.share(round, DIGEST);
    }

    function _refusesCommit(uint64 round, Phase current) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, Phase.Commit));
        vm.prank(members[2].account);
        ledger.commit(round, DIGEST, DIGEST);
    }

    function _refusesRelease(uint64 round, Phase current) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, Phase.Recover));
        vm.prank(members[2].account);
        ledger.release(round, DIGEST);
    }

    function _refusesFail(uint64 round, Phase current) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, current, Phase.Overdue));
        vm.prank(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidUpdate, DIGEST);
    }
}
