// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FailureReason, ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Phases that end before their window, as all have acted who may.
contract EarlyEndsTest is Federation {
    bytes32 private constant DIGEST = keccak256("digest");

    function setUp() public {
        _deploy(false);
        _joinApproved(3);
    }

    // --- ends ---

    function test_TheDraws_EndWithTheLastOfAllWhoMayDraw() public {
        uint64 round = _openAndDraw(2);
        vm.roll(vm.getBlockNumber() + 1);
        _inPhase(round, Phase.Draw);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawEnded(round);
        _draw(2, round);
        uint256 end = vm.getBlockNumber();
        RoundView memory view_ = ledger.round(round);
        _equal(view_.drawEnd, end, "draw end");
        _equal(view_.orderBlock, end + 2, "order block");
        _equal(view_.sealEnd, end + 7, "seal end");
        _equal(view_.committed, 0, "committed");
        _inPhase(round, Phase.Seal);
    }

    function test_TheDraws_LastTheirWindow_WhereOneIsMissing() public {
        uint64 round = _openAndDraw(2);
        uint64 end = ledger.round(round).openedAt + 12;
        _equal(ledger.round(round).drawEnd, end, "draw end");
        vm.roll(end);
        _inPhase(round, Phase.Draw);
        vm.roll(end + 1);
        _inPhase(round, Phase.Seal);
    }

    function test_TheDraws_LastTheirWindow_WhereNotEveryoneIsDrawn() public {
        _redeploy(true, _settings(), _termsAt(EVERYONE - 1));
        _join(3);
        uint64 round = _openAndDraw(3);
        _equal(ledger.round(round).drawn, 3, "drawn");
        _equal(ledger.round(round).drawEnd, ledger.round(round).openedAt + 12, "draw end");
    }

    function test_TheDraws_EndWhenTheRoundIsFull() public {
        _joinApproved(2);
        uint64 round = _openAndDraw(4);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    function test_TheSharePhase_EndsWithTheLastShare_AndTheCommitPhaseWithTheLastCommitment() public {
        uint64 round = _sealed(3);
        uint256 sealedAt = vm.getBlockNumber();
        _equal(ledger.round(round).shareEnd, sealedAt + 6, "share window");
        _share(0, round);
        _share(1, round);
        vm.roll(sealedAt + 2);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.ShareEnded(round);
        _share(2, round);
        _equal(ledger.round(round).shareEnd, sealedAt + 2, "share end");
        _equal(ledger.round(round).commitEnd, sealedAt + 9, "commit window");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Share, Phase.Commit));
        _commit(0, round);
        vm.roll(sealedAt + 3);
        _commit(0, round);
        _commit(1, round);
        vm.roll(sealedAt + 4);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.CommitEnded(round);
        _commit(2, round);
        _equal(ledger.round(round).commitEnd, sealedAt + 4, "commit end");
        _equal(ledger.round(round).recoverEnd, sealedAt + 12, "recover window");
    }

    function test_TheCommitPhase_AwaitsOnlyThoseWhoShared() public {
        uint64 round = _sealed(3);
        _share(0, round);
        _share(1, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _inPhase(round, Phase.Commit);
        _commit(0, round);
        _equal(ledger.round(round).commitEnd, ledger.round(round).shareEnd + 7, "commit window");
        _commit(1, round);
        _equal(ledger.round(round).commitEnd, vm.getBlockNumber(), "commit end");
    }

    function test_TheGraceOfTheCoordinator_AndTheLaterWindows_CountFromTheRecordedEnds() public {
        uint64 round = _committed(3, 3);
        uint64 end = ledger.round(round).commitEnd;
        vm.roll(end + 4);
        _as(members[0].account);
        ledger.recover(round, DIGEST);
        _equal(ledger.round(round).recoverEnd, end + 4, "recover end");
        _equal(ledger.round(round).closeEnd, end + 13, "close end");
        vm.roll(end + 8);
        _as(members[1].account);
        ledger.close(round, DIGEST, DIGEST);
        _equal(ledger.round(round).closeEnd, end + 13, "close end of the ended round");
        _equal(ledger.round(round).committed, 3, "committed");
    }

    function test_ARoundThatEndsBeforeItsSeal_KeepsTheEndOfItsDraws() public {
        uint64 round = _openAndDraw(3);
        uint64 end = ledger.round(round).drawEnd;
        vm.roll(ledger.round(round).sealEnd + 1);
        _as(STRANGER);
        ledger.fail(round, FailureReason.None, 0);
        _equal(ledger.round(round).drawEnd, end, "draw end");
        _equal(ledger.round(round).drawn, 3, "drawn");
        _equal(ledger.round(round).committed, 0, "committed");
    }

    // --- who is awaited ---

    function test_WhoMayNotDraw_IsNotAwaited_WhenNamed() public {
        _joinApproved(1);
        vm.roll(vm.getBlockNumber() + 1);
        _as(ADMIN);
        registry.revoke(members[0].account);
        _as(members[1].account);
        registry.withdraw(0, DIGEST); // for good
        vm.roll(vm.getBlockNumber() + 1);
        members.push(_newMember(99));
        _as(ADMIN);
        registry.approve(members[4].account);
        _register(members[4]); // active only later
        uint64 round = _openBarring(_three(0, 1, 4));
        _toDraw(round);
        _refusesDraw(1, round, abi.encodeWithSelector(ITrainingLedger.HasLeft.selector, members[1].account));
        _draw(2, round);
        _draw(3, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    function test_WhoMayDraw_Cannot_BeBarred() public {
        _refusesBarring(_one(1), abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, 1, members[1].account));
        vm.roll(vm.getBlockNumber() + 1);
        _as(ADMIN);
        registry.revoke(members[1].account); // acts from the next block on
        _refusesBarring(_one(1), abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, 1, members[1].account));
        vm.roll(vm.getBlockNumber() + 1);
        _openBarring(_one(1));
    }

    function test_ABarredClient_IsRegisteredAndNamedOnce() public {
        vm.roll(vm.getBlockNumber() + 1);
        _as(ADMIN);
        registry.revoke(members[1].account);
        vm.roll(vm.getBlockNumber() + 1);
        address[] memory twice = new address[](2);
        (twice[0], twice[1]) = (members[1].account, members[1].account);
        _refusesBarring(
            twice, abi.encodeWithSelector(ITrainingLedger.BarredNotAscending.selector, members[1].account)
        );
        address[] memory stranger = new address[](1);
        stranger[0] = STRANGER;
        _refusesBarring(stranger, abi.encodeWithSelector(ITrainingLedger.AccountNotRegistered.selector, STRANGER));
    }

    function test_ABarredClient_StaysOutOfTheRound_WhenApprovedAgain() public {
        vm.roll(vm.getBlockNumber() + 1);
        _as(ADMIN);
        registry.revoke(members[1].account);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _openBarring(_one(1));
        _as(ADMIN);
        registry.approve(members[1].account); // in the very block of the opening
        uint256 opened = vm.getBlockNumber();
        _toDraw(round);
        _refusesDraw(
            1,
            round,
            abi.encodeWithSelector(ITrainingLedger.NotYetActive.selector, members[1].account, opened + DELAY, opened)
        );
    }

    function test_WhoRegistersInTheBlockOfTheOpening_IsNeitherAwaitedNorDrawn() public {
        uint64 round = _open();
        Member memory late = _newMember(77);
        members.push(late);
        _as(ADMIN);
        registry.approve(late.account);
        _register(late);
        uint256 opened = vm.getBlockNumber();
        _toDraw(round);
        _refusesDraw(
            3, round, abi.encodeWithSelector(ITrainingLedger.NotYetActive.selector, late.account, opened + DELAY, opened)
        );
        for (uint256 i = 0; i < 3; ++i) {
            _draw(i, round);
        }
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    // --- helpers ---

    function _joinApproved(uint256 n) private {
        for (uint256 i = 0; i < n; ++i) {
            Member memory member = _newMember(members.length + 1);
            members.push(member);
            _as(ADMIN);
            registry.approve(member.account);
            _register(member);
        }
        vm.roll(vm.getBlockNumber() + DELAY);
    }

    function _openBarring(address[] memory barred) private returns (uint64) {
        bytes32 model = ledger.currentModel();
        delete tickets;
        _as(COORDINATOR);
        return ledger.open(model, barred);
    }

    function _refusesBarring(address[] memory barred, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.open(MODEL, barred);
    }

    function _refusesDraw(uint256 i, uint64 round, bytes memory refusal) private {
        (bytes memory message,) = _proof(members[i], round);
        vm.expectRevert(refusal);
        _as(members[i].account);
        ledger.draw(round, members[i].vrfX, members[i].vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }

    function _one(uint256 i) private view returns (address[] memory list) {
        list = new address[](1);
        list[0] = members[i].account;
    }

    /// @dev Three members' accounts, ascending.
    function _three(uint256 i, uint256 j, uint256 k) private view returns (address[] memory list) {
        list = new address[](3);
        (list[0], list[1], list[2]) = (members[i].account, members[j].account, members[k].account);
        for (uint256 pass = 0; pass < 2; ++pass) {
            for (uint256 at = 0; at < 2; ++at) {
                if (list[at] > list[at + 1]) (list[at], list[at + 1]) = (list[at + 1], list[at]);
            }
        }
    }
}
