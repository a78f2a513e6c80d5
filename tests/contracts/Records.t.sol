// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice What clients record after the order: shares, updates, releases.
contract RecordsTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
    }

    // --- share, commit, release ---

    function test_Share_IsAcceptedInItsWindowOnly() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).drawEnd + 1);
        _refusesShare(round, Phase.Seal);
        _seal(round);
        RoundView memory view_ = ledger.round(round);
        _share(0, round); // in the very block of the order
        vm.roll(view_.shareEnd);
        _share(1, round);
        vm.roll(view_.shareEnd + 1);
        _refusesShare(round, Phase.Commit);
    }

    function test_Commit_IsAcceptedInItsWindowOnly() public {
        uint64 round = _sealed(3);
        _share(0, round);
        _share(1, round);
        _share(2, round);
        RoundView memory view_ = ledger.round(round);
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
        _equal(view_.recoverEnd, view_.commitEnd + 12, "recover window");
        vm.roll(view_.commitEnd);
        _refusesRelease(round, Phase.Commit);
        vm.roll(view_.commitEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Released(round, 1, 0, DIGEST, 0);
        _as(members[0].account);
        ledger.release(round, 0, DIGEST, 0);
        vm.roll(view_.recoverEnd);
        _as(members[1].account);
        ledger.release(round, 0, DIGEST, 0); // drawn is enough
        vm.roll(view_.recoverEnd + 1);
        _refusesRelease(round, Phase.Overdue);
    }

    /// @dev Who closes early cannot keep the shares from those who recompute.
    function test_Release_GoesOnAfterTheClosing_UpToTheEndOfItsWindow() public {
        uint64 round = _closed(3, 3);
        uint64 end = ledger.round(round).recoverEnd;
        vm.roll(end);
        uint256 before = vm.snapshotState();
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Released(round, 3, 0, keccak256(abi.encode("released", uint256(2))), 0);
        _release(2, round);
        _equal(ledger.round(round).released, 3, "released");
        _inPhase(round, Phase.Closed);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyReleased.selector, round, 3));
        _release(2, round);
        vm.revertToState(before);
        vm.roll(end + 1);
        _refusesRelease(round, Phase.Closed);
    }

    function test_Release_GoesOnWhileTheNextRoundRuns_ForThoseWhoDoNotDrawInIt() public {
        uint64 round = _closed(3, 3);
        uint64 next = _open();
        _release(2, round);
        _toDraw(next);
        _draw(0, next);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotDrawn.selector, round, members[0].account));
        _release(0, round);
        vm.expectRevert(_wrongPhase(next, Phase.Draw, Phase.Recover));
        _release(2, next);
    }

    function test_ARoundThatFailedOrIsVoid_TakesNoRelease() public {
        uint64 failed = _committed(3, 2);
        _judgeNothing(0, failed);
        _judgeNothing(1, failed);
        _refusesRelease(failed, Phase.Failed);
        uint64 closed = _closed(3, 3);
        _judge(0, closed, 0, 0);
        _judge(1, closed, 0, 0);
        _refusesRelease(closed, Phase.Voided);
    }

    function test_ASkippedRound_TakesNoRecord() public {
        uint64 round = _openAndDraw(1);
        _skip(round);
        _refusesShare(round, Phase.Skipped);
        _refusesCommit(round, Phase.Skipped);
        _refusesRelease(round, Phase.Skipped);
    }

    function test_WhoDrewInTheRoundBefore_Cannot_ReleaseInThis() public {
        _closed(3, 3);
        uint64 round = _committed(2, 2);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotDrawn.selector, round, members[2].account));
        _release(2, round);
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
        _as(members[0].account);
        ledger.release(round, 0, DIGEST, 0);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.AlreadyReleased.selector, round, 1));
        _as(members[0].account);
        ledger.release(round, 0, DIGEST, 0);
    }

    function test_AClientThatWasNotDrawn_Cannot_ShareCommitOrRelease() public {
        uint64 round = _sealed(2);
        address third = members[2].account;
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.NotDrawn.selector, round, third);
        vm.expectRevert(refusal);
        _as(third);
        ledger.share(round, DIGEST);
        vm.roll(ledger.round(round).shareEnd + 1);
        vm.expectRevert(refusal);
        _as(third);
        ledger.commit(round, DIGEST, DIGEST);
        vm.roll(ledger.round(round).commitEnd + 1);
        vm.expectRevert(refusal);
        _as(third);
        ledger.release(round, 0, DIGEST, 0);
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

    function _refusesShareOf(address account, uint64 round, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(account);
        ledger.share(round, DIGEST);
    }

    function _refusesShare(uint64 round, Phase current) private {
        vm.expectRevert(_wrongPhase(round, current, Phase.Share));
        _as(members[2].account);
        ledger.share(round, DIGEST);
    }

    function _refusesCommit(uint64 round, Phase current) private {
        vm.expectRevert(_wrongPhase(round, current, Phase.Commit));
        _as(members[2].account);
        ledger.commit(round, DIGEST, DIGEST);
    }

    function _refusesRelease(uint64 round, Phase current) private {
        vm.expectRevert(_wrongPhase(round, current, Phase.Recover));
        _as(members[2].account);
        ledger.release(round, 0, DIGEST, 0);
    }
}
