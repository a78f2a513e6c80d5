// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "../../contracts/interfaces/IClientRegistry.sol";
import {FailureReason, ITrainingLedger} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Two absences make a client sit out one round (see the settings in Federation).
contract AbsencesTest is Federation {
    function setUp() public {
        _deploy(true);
        _join(4);
    }

    function test_AClientThatDrewAndDidNotCommit_IsAbsent() public {
        uint64 round = _closed(4, 3);
        vm.expectEmit(address(registry));
        emit IClientRegistry.AbsenceRecorded(4, 1);
        _report(round, 3);
        _equal(_absences(3), 1, "absences");
    }

    function test_AnAbsence_CountsOnceARound() public {
        uint64 round = _closed(4, 3);
        _report(round, 3);
        _report(round, 3);
        _equal(_absences(3), 1, "absences");
    }

    function test_AClientThatCommitted_IsNotAbsent_EvenInAFailedRound() public {
        uint64 round = _committed(4, 3);
        vm.roll(ledger.round(round).recoverEnd + 1);
        ledger.fail(round, FailureReason.None, 0);
        _refuses(round, 0);
        _report(round, 3);
        _equal(_absences(3), 1, "absences");
    }

    function test_WhereEveryoneIsDrawn_AnEligibleClientThatDidNotDraw_IsAbsent() public {
        uint64 round = _closed(3, 3);
        _report(round, 3);
        _equal(_absences(3), 1, "absences");
    }

    function test_ASkippedRound_CountsThoseWhoDidNotDraw_NotThoseWhoDid() public {
        uint64 round = _openAndDraw(1);
        vm.roll(ledger.round(round).drawEnd + 1);
        ledger.skip(round);
        _refuses(round, 0); // it drew; there was no order to commit in
        _report(round, 1);
        _equal(_absences(1), 1, "absences");
    }

    function test_ARoundWhoseSeedWasNeverFixed_CountsNobody() public {
        uint64 round = _open(EVERYONE);
        vm.roll(ledger.round(round).drawEnd + 1);
        ledger.skip(round);
        _refuses(round, 1);
    }

    function test_WhereNotEveryoneIsDrawn_ThoseWhoDidNotDrawAreNotAbsent() public {
        uint64 round = _open(999_999);
        _toDraw(round);
        ledger.fixSeed(round);
        vm.roll(ledger.round(round).drawEnd + 1);
        ledger.skip(round);
        _refuses(round, 1);
    }

    function test_AClientThatCouldNotDraw_IsNotAbsent() public {
        members.push(_newMember(5));
        uint64 round = _open(EVERYONE);
        _register(members[4]); // too late for this round
        _toDraw(round);
        ledger.fixSeed(round);
        vm.roll(ledger.round(round).drawEnd + 1);
        ledger.skip(round);
        _refuses(round, 4);
        members.push(_newMember(6)); // never registered
        _refuses(round, 5);
    }

    function test_AClientForWhomTheRoundWasFull_IsNotAbsent() public {
        _join(1);
        uint64 round = _closed(4, 4);
        _refuses(round, 4);
    }

    function test_TwoAbsences_MakeAClientSitOutOneRound() public {
        _report(_closed(4, 3), 3);
        _report(_closed(4, 3), 3);
        _equal(ledger.sitsOutUntil(members[3].account), 3, "sits out until");
        uint64 round = _openAndDraw(3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SittingOut.selector, 4, 3));
        vm.prank(members[3].account);
        ledger.draw(round, members[3].vrfX, members[3].vrfY, MASK_KEY, SEAL_KEY, 10, "");
        _finish(round);
        _refuses(round, 3); // who sits out is not absent
        round = _openAndDraw(4);
        _equal(ledger.round(round).drawn, 4, "drawn again");
    }

    function test_AnAbsence_CanStillBeReportedAfterTheClientDrewInTheNextRound() public {
        uint64 round = _closed(4, 3);
        _openAndDraw(4);
        _report(round, 3);
        _equal(_absences(3), 1, "absences");
        _refuses(round, 0);
    }

    function test_OnlyTheLatestEndedRound_CanBeReported() public {
        uint64 first = _closed(4, 3);
        uint64 second = _closed(4, 4);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotLatestEnded.selector, first, second));
        ledger.reportAbsences(first, new address[](0));
        uint64 running = _open(EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotLatestEnded.selector, running, second));
        ledger.reportAbsences(running, new address[](0));
        ledger.reportAbsences(second, new address[](0));
    }

    function test_BeforeAnyRoundEnded_NothingCanBeReported() public {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotLatestEnded.selector, 0, 0));
        ledger.reportAbsences(0, new address[](0));
        uint64 round = _open(EVERYONE);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotLatestEnded.selector, round, 0));
        ledger.reportAbsences(round, new address[](0));
    }

    /// @dev Brings a round with three draws to its end with three commitments.
    function _finish(uint64 round) private {
        _seal(round);
        for (uint256 i = 0; i < 3; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < 3; ++i) {
            _commit(i, round);
        }
        vm.roll(ledger.round(round).recoverEnd + 1);
        ledger.fail(round, FailureReason.None, 0);
    }

    function _report(uint64 round, uint256 i) private {
        address[] memory accounts = new address[](1);
        accounts[0] = members[i].account;
        ledger.reportAbsences(round, accounts);
    }

    function _refuses(uint64 round, uint256 i) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotAbsent.selector, round, members[i].account));
        _report(round, i);
    }

    function _absences(uint256 i) private view returns (uint32) {
        return registry.clientOf(members[i].account).absences;
    }
}
