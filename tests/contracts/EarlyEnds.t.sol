// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView, Settings, SignedDraw} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Phases that end before their window, as all have acted who may.
contract EarlyEndsTest is Federation {
    uint64 private constant LONGEST_DRAW = (1 << 19) - 1;

    function setUp() public {
        _deploy(Membership.Approved);
        _join(3);
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
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        _join(3);
        uint64 round = _openAndDraw(3);
        _equal(ledger.round(round).drawn, 3, "drawn");
        _equal(ledger.round(round).drawEnd, ledger.round(round).openedAt + 12, "draw end");
    }

    function test_TheDraws_EndWhenTheRoundIsFull() public {
        _join(2);
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
        _equal(ledger.round(round).recoverEnd, sealedAt + 16, "recover window");
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

    function test_TheGraceOfTheCoordinator_AndTheLaterWindow_CountFromTheRecordedEnd() public {
        uint64 round = _committed(3, 3);
        uint64 end = ledger.round(round).commitEnd;
        _release(0, round);
        _release(1, round);
        vm.roll(end + 7); // twice the grace, and one
        _close(members[0].account, round);
        _equal(ledger.round(round).recoverEnd, end + 12, "recover end of the ended round");
        _equal(ledger.round(round).committed, 3, "committed");
        vm.roll(end + 12);
        _release(2, round);
    }

    function test_ARoundThatEndsBeforeItsSeal_KeepsTheEndOfItsDraws() public {
        uint64 round = _openAndDraw(3);
        uint64 end = ledger.round(round).drawEnd;
        _fail(round);
        _equal(ledger.round(round).drawEnd, end, "draw end");
        _equal(ledger.round(round).drawn, 3, "drawn");
        _equal(ledger.round(round).committed, 0, "committed");
    }

    // --- rounds that wait for their quorum ---

    function test_ARoundOfAllMembers_WaitsForItsQuorum() public {
        uint64 round = _openAndDraw(1);
        uint64 openedAt = ledger.round(round).openedAt;
        _equal(ledger.round(round).drawEnd, openedAt + LONGEST_DRAW, "draw end");
        vm.roll(openedAt + LONGEST_DRAW);
        _inPhase(round, Phase.Draw);
        vm.roll(openedAt + LONGEST_DRAW + 1);
        _inPhase(round, Phase.Seal); // in which nothing can be sealed
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumMissed.selector, round, 1, 2));
        _as(STRANGER);
        ledger.seal(round, "", "", "");
        vm.roll(ledger.round(round).sealEnd + 1);
        _inPhase(round, Phase.Overdue);
        _fail(round);
        _equal(ledger.failedRounds(), 0, "failed rounds");
    }

    /// @dev Members come back whenever they like, as long as somebody fixed the seed while its block was known.
    function test_TheLateDrawThatReachesTheQuorum_EndsTheDraws() public {
        uint64 round = _openAndDraw(1);
        uint64 late = _windowEnd(round) + 200_000;
        vm.roll(late);
        _inPhase(round, Phase.Draw);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawEnded(round);
        _draw(1, round);
        _equal(ledger.round(round).drawEnd, late, "draw end");
        vm.roll(late + 1);
        _refusesDraw(2, round, _wrongPhase(round, Phase.Seal, Phase.Draw));
    }

    function test_ADrawInTheLastBlockOfTheWindow_EndsTheDrawsOnlyWithIt() public {
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round));
        _draw(1, round);
        _equal(ledger.round(round).drawEnd, _windowEnd(round), "draw end");
        _draw(2, round);
        _equal(ledger.round(round).drawn, 3, "drawn");
    }

    /// @dev With a quorum of three the second late draw does not end the draws.
    function test_ALateDrawBelowTheQuorum_DoesNotEndTheDraws() public {
        Settings memory s = _settings();
        s.quorum = 3;
        _redeploy(Membership.Open, s, _terms());
        _join(4);
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 1);
        _draw(1, round);
        _equal(ledger.round(round).drawEnd, ledger.round(round).openedAt + LONGEST_DRAW, "draw end");
        _draw(2, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    function test_ALateBatch_DrawsUpToTheQuorumOnly() public {
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 1);
        SignedDraw[] memory items = new SignedDraw[](2);
        (items[0], items[1]) = (_signedDraw(1, round), _signedDraw(2, round));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawEnded(round);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawRejected(round, members[2].account, ITrainingLedger.WrongPhase.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 2, "drawn");
    }

    function test_ALateRound_GoesOnToItsClosing() public {
        uint64 round = _openAndDraw(1);
        vm.roll(ledger.round(round).openedAt + LONGEST_DRAW);
        _draw(1, round);
        _seal(round);
        _equal(ledger.round(round).sealEnd, vm.getBlockNumber(), "seal end");
        vm.roll(vm.getBlockNumber() + 6);
        _share(0, round);
        _share(1, round);
        vm.roll(vm.getBlockNumber() + 7);
        _commit(0, round);
        _commit(1, round);
        _equal(ledger.round(round).commitEnd, vm.getBlockNumber(), "commit end");
        vm.roll(vm.getBlockNumber() + 1);
        _release(0, round);
        _release(1, round);
        _close(COORDINATOR, round);
        _inPhase(round, Phase.Closed);
    }

    function test_ARoundThatDrawsSome_DoesNotWait() public {
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        _join(3);
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 1);
        _inPhase(round, Phase.Seal);
        _refusesDraw(1, round, _wrongPhase(round, Phase.Seal, Phase.Draw));
    }

    /// @dev Where nobody fixed the seed in time nobody can draw any more, with whatever proof.
    function test_ALateDraw_Cannot_HaveASeedOfItsOwn() public {
        uint64 round = _open();
        _toDraw(round);
        (bytes memory message,) = _proof(members[0], round);
        uint256 seedBlock = ledger.round(round).seedBlock;
        vm.roll(seedBlock + 257);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.BlockHashUnavailable.selector, round, seedBlock);
        vm.expectRevert(refusal);
        _as(members[0].account);
        ledger.draw(round, members[0].vrfX, members[0].vrfY, MASK_KEY, SEAL_KEY, 10, message);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.fixSeed(round);
        vm.mockCall(HISTORY, abi.encode(seedBlock), abi.encode(keccak256(abi.encode("block", round))));
        _as(members[0].account);
        ledger.draw(round, members[0].vrfX, members[0].vrfY, MASK_KEY, SEAL_KEY, 10, message);
        _equal(ledger.round(round).drawn, 1, "drawn");
    }

    function test_ADrawOfASkippedRound_Cannot_BeUsedInTheNext() public {
        uint64 round = _openAndDraw(1);
        (bytes memory message,) = _proof(members[1], round);
        _skip(round);
        uint64 next = _open();
        _toDraw(next);
        _as(STRANGER);
        ledger.fixSeed(next);
        vm.roll(_windowEnd(next) + 100);
        vm.expectRevert(); // the candidates of try-and-increment differ, so which check refuses depends on the hash
        _as(members[1].account);
        ledger.draw(next, members[1].vrfX, members[1].vrfY, MASK_KEY, SEAL_KEY, 10, message);
        vm.expectRevert(_wrongPhase(round, Phase.Skipped, Phase.Draw));
        _as(members[1].account);
        ledger.draw(round, members[1].vrfX, members[1].vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }

    /// @dev Nobody is left to wait for.
    function test_ARoundOfAllMembers_WhoAreFewerThanTheQuorum_DoesNotWait() public {
        _revoke(members[0].account);
        _revoke(members[1].account);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _openBarring(_accounts(3));
        _toDraw(round);
        _draw(2, round);
        vm.roll(vm.getBlockNumber() + 1);
        _inPhase(round, Phase.Seal);
        _skip(round);
    }

    // --- who is awaited ---

    function test_WhoMayNotDraw_IsNotAwaited_WhenNamed() public {
        _join(1);
        vm.roll(vm.getBlockNumber() + 1);
        _revoke(members[0].account);
        _as(members[1].account);
        registry.withdraw(0, DIGEST); // for good
        vm.roll(vm.getBlockNumber() + 1);
        members.push(_newMember(99));
        _approve(members[4].account);
        _register(members[4]); // active only later
        uint64 round = _openBarring(_accounts(19));
        _toDraw(round);
        _refusesDraw(1, round, abi.encodeWithSelector(ITrainingLedger.HasLeft.selector, members[1].account));
        _draw(2, round);
        _draw(3, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    function test_WhoMayDraw_Cannot_BeBarred() public {
        _refusesBarring(_accounts(2), abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, 1, members[1].account));
        vm.roll(vm.getBlockNumber() + 1);
        _revoke(members[1].account); // acts from the next block on
        _refusesBarring(_accounts(2), abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, 1, members[1].account));
        vm.roll(vm.getBlockNumber() + 1);
        _openBarring(_accounts(2));
    }

    function test_ABarredClient_IsRegisteredAndNamedOnce() public {
        vm.roll(vm.getBlockNumber() + 1);
        _revoke(members[1].account);
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
        _revoke(members[1].account);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _openBarring(_accounts(2));
        _approve(members[1].account); // in the very block of the opening
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
        _approve(late.account);
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

}
