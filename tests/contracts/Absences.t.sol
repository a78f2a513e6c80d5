// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry} from "../../contracts/interfaces/IClientRegistry.sol";
import {FailureReason, ITrainingLedger, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Reports of absences. Two absences make a client sit out one round (see the settings in Federation).
contract AbsencesTest is Federation {
    function setUp() public {
        _deploy(true);
        _join(4);
    }

    // --- what counts as an absence ---

    function test_AClientThatDrewAndDidNotCommit_IsAbsent() public {
        uint64 round = _closed(4, 3);
        vm.expectEmit(address(registry));
        emit IClientRegistry.AbsenceRecorded(4, 1);
        _report(round, _accounts(3));
        _equal(_absences(3), 1, "absences");
    }

    function test_AClientThatCommitted_Cannot_BeReported() public {
        uint64 round = _closed(4, 3);
        _refusesAsPresent(round, 0);
    }

    function test_AClientThatDidNotDraw_IsNotAbsent() public {
        uint64 round = _closed(3, 2);
        _refusesAsPresent(round, 3);
        members.push(_newMember(5)); // never registered
        _refusesAsPresent(round, 4);
        _report(round, _accounts(2));
        _equal(_absences(3), 0, "absences");
    }

    function test_ARoundInWhichAllCommitted_HasAnEmptyReport() public {
        uint64 round = _closed(3, 3);
        _report(round, new address[](0));
        _refuses(round, _accounts(3), _incomplete(1, 0));
    }

    function test_ARoundThatCameToNothing_CountsAgainstNobody() public {
        uint64 round = _committed(4, 3);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _as(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        _refuses(round, _accounts(3), _notLatest(round, round));
        round = _committed(4, 3);
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.TooFewSurvivors, 0);
        _refuses(round, _accounts(3), _notLatest(round, round));
        round = _openAndDraw(1);
        vm.roll(ledger.round(round).drawEnd + 1);
        _as(STRANGER);
        ledger.skip(round);
        _refuses(round, new address[](0), _notLatest(round, round));
    }

    // --- complete reports ---

    function test_AReport_NamesAllWhoWereAbsent() public {
        uint64 round = _closed(4, 2);
        _refuses(round, _accounts(2), _incomplete(1, 2));
        _refuses(round, _accounts(3), _incomplete(1, 2));
        _refuses(round, new address[](0), _incomplete(0, 2));
        _equal(_absences(2) + _absences(3), 0, "absences");
        _report(round, _accounts(2, 3));
        _equal(_absences(2), 1, "absences of the third");
        _equal(_absences(3), 1, "absences of the fourth");
    }

    function test_AReport_NamesNobodyElse() public {
        uint64 round = _closed(4, 2);
        address[] memory three = new address[](3);
        (three[0], three[1]) = (_accounts(2, 3)[0], _accounts(2, 3)[1]);
        three[2] = address(type(uint160).max);
        _refuses(round, three, _incomplete(3, 2));
        address[] memory wrong = _accounts(1, 2); // a client that committed in the place of one that did not
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.NotAbsent.selector, round, members[1].account);
        _refuses(round, wrong, refusal);
        _equal(_absences(2), 0, "a refused report counts nothing");
    }

    function test_AReport_NamesNobodyTwice() public {
        uint64 round = _closed(4, 2);
        address[] memory twice = new address[](2);
        (twice[0], twice[1]) = (members[3].account, members[3].account);
        _refuses(round, twice, _notAscending(members[3].account));
        address[] memory zero = new address[](2);
        zero[1] = members[3].account;
        _refuses(round, zero, _notAscending(address(0)));
    }

    function test_AReport_AscendsByAccount() public {
        uint64 round = _closed(4, 2);
        address[] memory list = _accounts(2, 3);
        (list[0], list[1]) = (list[1], list[0]);
        _refuses(round, list, _notAscending(list[1]));
    }

    function test_ARepeatedReport_CountsNothing() public {
        uint64 round = _closed(4, 2);
        _report(round, _accounts(2, 3));
        _report(round, _accounts(2, 3));
        _equal(_absences(2), 1, "absences of the third");
        _equal(_absences(3), 1, "absences of the fourth");
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.NotAbsent.selector, round, members[0].account);
        _refuses(round, _accounts(0, 3), refusal);
    }

    /// @dev Which clients commit is told by bits; of all lists that ascend, one is accepted.
    function testFuzz_OneReportOnly_IsAccepted(uint8 present, uint8 named) public {
        uint64 round = _closedBy(present);
        address[] memory list = _accountsOf(named % 16);
        uint8 absent = ~present & 15;
        _as(STRANGER);
        (bool accepted,) = address(ledger).call(abi.encodeCall(ledger.reportAbsences, (round, list)));
        require(accepted == (named % 16 == absent), "a report was wrongly accepted or refused");
        for (uint256 i = 0; i < 4; ++i) {
            _equal(_absences(i), accepted ? (absent >> i) & 1 : 0, "absences");
        }
    }

    // --- when ---

    function test_OnlyTheLatestEndedRound_CanBeReported() public {
        uint64 first = _closed(4, 3);
        uint64 second = _closed(4, 4);
        _refuses(first, _accounts(3), _notLatest(first, second));
        uint64 running = _openAndDraw(4);
        vm.roll(ledger.round(running).drawEnd + 1);
        _refuses(running, new address[](0), _notLatest(running, second));
        _refuses(first, _accounts(3), _notLatest(first, second));
        _report(second, new address[](0));
    }

    function test_AClosedRound_Cannot_BeReportedOnceTheNextOneFailed() public {
        uint64 closed = _closed(4, 3);
        uint64 failed = _openAndDraw(4);
        vm.roll(ledger.round(failed).sealEnd + 1);
        _as(STRANGER);
        ledger.fail(failed, FailureReason.Deadline, 0);
        _refuses(closed, _accounts(3), _notLatest(closed, failed));
    }

    function test_BeforeAnyRoundEnded_NothingCanBeReported() public {
        _refuses(0, new address[](0), _notLatest(0, 0));
        uint64 round = _open();
        _refuses(0, new address[](0), _notLatest(0, 0));
        _refuses(round, new address[](0), _notLatest(round, 0));
    }

    function test_WhileTheNextRoundDraws_NothingCanBeReported() public {
        uint64 round = _closed(4, 3);
        uint64 running = _open();
        uint256 drawEnd = ledger.round(running).drawEnd;
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.DrawStillOpen.selector, running, drawEnd);
        _refuses(round, _accounts(3), refusal);
        vm.roll(drawEnd);
        _refuses(round, _accounts(3), refusal);
        vm.roll(drawEnd + 1);
        _report(round, _accounts(3));
        _equal(_absences(3), 1, "absences");
    }

    function test_AnAbsence_CanStillBeReportedAfterTheClientDrewAndCommittedInTheNextRound() public {
        uint64 round = _closed(4, 2);
        _committed(4, 4);
        _refusesAsPresent(round, 0, 3);
        _report(round, _accounts(2, 3));
        _equal(_absences(2), 1, "absences of the third");
        _equal(_absences(3), 1, "absences of the fourth");
    }

    // --- sitting out ---

    function test_TwoAbsences_MakeAClientSitOutOneRound() public {
        _report(_closed(4, 3), _accounts(3));
        _equal(ledger.sitsOutUntil(members[3].account), 0, "sits out after one absence");
        _report(_closed(4, 3), _accounts(3));
        _equal(ledger.sitsOutUntil(members[3].account), 3, "sits out until");
        uint64 round = _openAndDraw(3);
        _refusesDraw(round);
        _finish(round);
        round = _openAndDraw(4);
        _equal(ledger.round(round).drawn, 4, "drawn again");
    }

    function test_AReportDuringTheNextRound_MakesTheClientSitOutTheOneAfter() public {
        _report(_closed(4, 3), _accounts(3));
        uint64 round = _closed(4, 3);
        uint64 running = _openAndDraw(4);
        _seal(running);
        _report(round, _accounts(3));
        _equal(ledger.sitsOutUntil(members[3].account), running + 1, "sits out until");
        _share(3, running); // it stays in the round that runs
        _finish(running);
        _refusesDraw(_openAndDraw(3));
    }

    function test_WhereNobodySitsOut_AbsencesAreOnlyCounted() public {
        Settings memory settings_ = _settings();
        settings_.absenceRounds = 0;
        settings_.absenceLimit = 1;
        _redeploy(true, settings_, _terms());
        _join(4);
        _report(_closed(4, 3), _accounts(3));
        uint64 round = _openAndDraw(4);
        _equal(ledger.round(round).drawn, 4, "drawn");
        _equal(_absences(3), 1, "absences");
    }

    /// @dev Brings a round to its end without a model.
    function _finish(uint64 round) private {
        vm.roll(ledger.round(round).recoverEnd + 1);
        _as(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
    }

    /// @dev A closed round in which all drew and the members of the bits `present` committed.
    function _closedBy(uint8 present) private returns (uint64 round) {
        round = _sealed(4);
        for (uint256 i = 0; i < 4; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < 4; ++i) {
            if ((present >> i) & 1 == 1) _commit(i, round);
        }
        vm.roll(ledger.round(round).commitEnd + 1);
        _as(COORDINATOR);
        ledger.recover(round, keccak256("recovery"));
        _as(COORDINATOR);
        ledger.close(round, keccak256(abi.encode("model", round)), keccak256("metrics"));
    }

    function _report(uint64 round, address[] memory accounts) private {
        _as(STRANGER);
        ledger.reportAbsences(round, accounts);
    }

    function _refuses(uint64 round, address[] memory accounts, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _report(round, accounts);
    }

    /// @dev Member `i`, named as the only absent one.
    function _refusesAsPresent(uint64 round, uint256 i) private {
        _refuses(
            round, _accounts(i), abi.encodeWithSelector(ITrainingLedger.NotAbsent.selector, round, members[i].account)
        );
    }

    /// @dev Member `i`, named beside `absent`.
    function _refusesAsPresent(uint64 round, uint256 i, uint256 absent) private {
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.NotAbsent.selector, round, members[i].account);
        _refuses(round, _accounts(i, absent), refusal);
    }

    function _refusesDraw(uint64 round) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SittingOut.selector, 4, round));
        _as(members[3].account);
        ledger.draw(round, members[3].vrfX, members[3].vrfY, MASK_KEY, SEAL_KEY, 10, "");
    }

    function _accounts(uint256 i) private view returns (address[] memory) {
        return _accountsOf(1 << i);
    }

    function _accounts(uint256 i, uint256 j) private view returns (address[] memory) {
        return _accountsOf((1 << i) | (1 << j));
    }

    /// @dev The accounts of the members of these bits, ascending.
    function _accountsOf(uint256 bits) private view returns (address[] memory list) {
        list = new address[](members.length);
        uint256 count = 0;
        for (uint256 i = 0; i < members.length; ++i) {
            if ((bits >> i) & 1 == 0) continue;
            uint256 slot = count++;
            for (; slot > 0 && list[slot - 1] > members[i].account; --slot) {
                list[slot] = list[slot - 1];
            }
            list[slot] = members[i].account;
        }
        assembly ("memory-safe") {
            mstore(list, count)
        }
    }

    function _absences(uint256 i) private view returns (uint32) {
        return registry.clientOf(members[i].account).absences;
    }

    function _incomplete(uint256 given, uint256 absent) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.ReportIncomplete.selector, given, absent);
    }

    function _notAscending(address account) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.ReportNotAscending.selector, account);
    }

    function _notLatest(uint64 round, uint64 latest) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotLatestClosed.selector, round, latest);
    }
}
