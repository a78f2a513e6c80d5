// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECVRF} from "../../contracts/ECVRF.sol";
import {ClientView, IClientRegistry, Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {Prover} from "./harness/Prover.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Approvals, and what the admin can do to a round that runs: nothing. Members 0 and 1 are approved; 2 was.
contract RevocationsTest is Federation {
    function _settings() internal pure override returns (Settings memory s) {
        s = super._settings();
        s.drawWindow = 100;
    }

    function setUp() public {
        _deploy(Membership.Approved);
        _join(3);
        _revoke(members[2].account);
        vm.roll(vm.getBlockNumber() + DELAY);
    }

    function test_OnlyApprovedClients_MayDraw() public {
        uint64 round = _openAndDraw(2);
        _refuses(2, round, _notApproved(2));
        _equal(ledger.round(round).drawn, 2, "drawn");
    }

    // --- within a round ---

    function test_ARevocation_ActsFromTheNextRoundOn() public {
        uint64 round = _open();
        vm.roll(vm.getBlockNumber() + 1);
        _revoke(members[0].account);
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _seal(round);
        _share(0, round); // and it goes on to the end
        _next(round);
        uint64 next = _open();
        _toDraw(next);
        _refuses(0, next, _notApproved(0));
        _draw(1, next);
    }

    function test_ARevocationInTheMiddleOfTheDraws_TakesNobodyOut() public {
        uint64 round = _open();
        _toDraw(round);
        _draw(1, round);
        _revoke(members[0].account);
        _draw(0, round);
        vm.roll(ledger.round(round).drawEnd);
        _equal(ledger.round(round).drawn, 2, "drawn");
    }

    function test_ARevocationInTheBlockOfTheOpening_ActsFromTheNextRoundOn() public {
        _revoke(members[0].account);
        uint64 round = _open();
        _revoke(members[1].account);
        _toDraw(round);
        _draw(0, round);
        _approve(members[1].account); // which takes the revocation back
        _draw(1, round);
        _next(round);
        round = _open();
        _toDraw(round);
        _refuses(0, round, _notApproved(0));
        _draw(1, round);
    }

    function test_ARevocationInTheBlockOfTheOpening_CanBeTakenBackInTheRound() public {
        _revoke(members[0].account);
        uint64 round = _open();
        uint64 activeFrom = registry.clientOf(members[0].account).activeFrom;
        _toDraw(round);
        _approve(members[0].account);
        _equal(registry.clientOf(members[0].account).activeFrom, activeFrom, "activeFrom");
        _draw(0, round);
    }

    function test_ARevocationBeforeTheOpening_ActsInTheRound() public {
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _open();
        _toDraw(round);
        _refuses(0, round, _notApproved(0));
        _approve(members[0].account); // not for this round any more
        uint256 openedAt = ledger.round(round).openedAt;
        _refuses(0, round, _notYetActive(0, vm.getBlockNumber() + DELAY, openedAt));
    }

    /// @dev Who is revoked and approved again would otherwise be active too late for the round.
    function test_RevokingAndApprovingAgain_TakesNobodyOutOfTheRunningRound() public {
        uint64 round = _open();
        uint64 activeFrom = registry.clientOf(members[0].account).activeFrom;
        _toDraw(round);
        _revoke(members[0].account);
        _approve(members[0].account);
        _equal(registry.clientOf(members[0].account).activeFrom, activeFrom, "activeFrom");
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + 10);
        _approve(members[0].account);
        _draw(0, round);
        _next(round);
        round = _open();
        _toDraw(round);
        _draw(0, round);
    }

    function test_ApprovingAndRevoking_PutsNobodyIntoTheRunningRound() public {
        uint64 round = _open();
        _toDraw(round);
        _approve(members[2].account);
        uint256 from = vm.getBlockNumber() + DELAY;
        uint256 openedAt = ledger.round(round).openedAt;
        _refuses(2, round, _notYetActive(2, from, openedAt));
        _revoke(members[2].account);
        _refuses(2, round, _notYetActive(2, from, openedAt));
        _approve(members[2].account);
        _refuses(2, round, _notYetActive(2, from, openedAt));
    }

    function test_AnAccountApprovedInTheRound_ComesTooLateForIt() public {
        uint64 round = _open();
        vm.roll(vm.getBlockNumber() + 1);
        members.push(_newMember(4));
        _approve(members[3].account);
        _register(members[3]);
        uint256 from = vm.getBlockNumber() + DELAY;
        uint256 openedAt = ledger.round(round).openedAt;
        _toDraw(round);
        _refuses(3, round, _notYetActive(3, from, openedAt));
        _revoke(members[3].account);
        _approve(members[3].account);
        _refuses(3, round, _notYetActive(3, from, openedAt));
    }

    function test_AnAccountRevokedBeforeItRegistered_Cannot_Register() public {
        members.push(_newMember(4));
        _approve(members[3].account);
        _revoke(members[3].account);
        Member memory late = members[3];
        vm.expectRevert(abi.encodeWithSelector(IClientRegistry.NotApproved.selector, late.account));
        _as(late.account);
        registry.register(late.vrfX, late.vrfY, MAILBOX, "");
    }

    function test_AReapproval_Cannot_BringBackWhoLeft() public {
        _as(members[0].account);
        registry.withdraw(0, DIGEST);
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + 1);
        _next(_open());
        uint32 count = registry.memberCount();
        _approve(members[0].account);
        _equal(registry.memberCount(), count, "members");
        vm.roll(vm.getBlockNumber() + DELAY);
        uint64 round = _open();
        _toDraw(round);
        _refuses(0, round, abi.encodeWithSelector(ITrainingLedger.HasLeft.selector, members[0].account));
    }

    function test_Resuming_Cannot_BringBackWhoIsRevoked() public {
        _as(members[2].account);
        registry.resume();
        vm.roll(vm.getBlockNumber() + DELAY);
        uint64 round = _open();
        _toDraw(round);
        _refuses(2, round, _notApproved(2));
    }

    function test_ARevokedClient_Cannot_DrawWithAKeyChosenInTheRound() public {
        uint64 round = _open();
        uint256 openedAt = ledger.round(round).openedAt;
        _toDraw(round);
        _revoke(members[0].account);
        Member memory fresh = _newMember(77);
        address account = members[0].account;
        (bytes memory message,) = Prover.prove(fresh.secret, _registerAlpha(address(registry), account));
        _as(account);
        registry.rotateVrfKey(fresh.vrfX, fresh.vrfY, message);
        (members[0].vrfX, members[0].vrfY) = (fresh.vrfX, fresh.vrfY);
        uint256 from = vm.getBlockNumber() + DELAY;
        _refuses(0, round, _notYetActive(0, from, openedAt));
        _approve(members[0].account);
        _refuses(0, round, _notYetActive(0, from, openedAt));
    }

    function test_ARevokedClient_Cannot_ActForTheCoordinator() public {
        uint64 round = _openAndDraw(2);
        _next(round);
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + _settings().coordinatorGrace + 1);
        bytes32 model = ledger.currentModel();
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, members[0].account));
        _as(members[0].account);
        ledger.open(model, _nobody());
        _as(members[1].account);
        ledger.open(model, _nobody());
    }

    // --- between rounds ---

    function test_ARevocationTakenBackBeforeTheNextRound_ChangesNothing() public {
        uint64 round = _openAndDraw(2);
        _next(round);
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + 5);
        _approve(members[0].account);
        round = _open();
        _toDraw(round);
        _draw(0, round);
    }

    function test_AnApprovalAfterARevocationThatActed_DelaysActivity() public {
        _revoke(members[0].account);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _open();
        _next(round);
        _approve(members[0].account);
        uint256 from = vm.getBlockNumber() + DELAY;
        _equal(registry.clientOf(members[0].account).activeFrom, from, "activeFrom");
        round = _open();
        uint256 openedAt = ledger.round(round).openedAt;
        _toDraw(round);
        _refuses(0, round, _notYetActive(0, from, openedAt));
    }

    // --- any history ---

    /// @dev Whatever the admin does, who may draw in a round is who could when it was opened.
    function testFuzz_WhoMayDraw_IsFixedByTheOpening(uint256 history) public {
        bool[3] memory mayDraw;
        uint64 round = 0;
        for (uint256 i = 0; i < 32; ++i) {
            uint256 who = history & 3;
            uint256 action = (history >> 2) & 7;
            history >>= 5;
            if (history == 0) history = uint256(keccak256(abi.encode(history, i, who)));
            if (action == 0) {
                if (round != 0) _next(round);
                vm.roll(vm.getBlockNumber() + 1);
                round = _open();
                for (uint256 k = 0; k < 3; ++k) {
                    mayDraw[k] = _isMember(k);
                }
            } else if (action == 1) {
                vm.roll(vm.getBlockNumber() + 1 + who);
            } else if (who < 3) {
                if (action % 2 == 0) _approve(members[who].account);
                else _revoke(members[who].account);
            }
            if (round != 0) _check(round, mayDraw);
        }
    }

    /// @dev Whether the member is approved and active in this block.
    function _isMember(uint256 i) private view returns (bool) {
        ClientView memory client = registry.clientOf(members[i].account);
        return client.approved && client.activeFrom <= vm.getBlockNumber();
    }

    /// @dev Tries the draws of all members, in the window if it is still to come.
    function _check(uint64 round, bool[3] memory mayDraw) private {
        uint256 before = vm.snapshotState();
        if (ledger.phase(round) == Phase.Seeding) _toDraw(round);
        if (ledger.phase(round) == Phase.Draw) {
            for (uint256 i = 0; i < 3; ++i) {
                require(_isEligible(i, round) == mayDraw[i], "a round that runs got or lost a client");
            }
        }
        vm.revertToState(before);
    }

    /// @dev Whether a draw comes as far as its proof, which is empty here.
    function _isEligible(uint256 i, uint64 round) private view returns (bool) {
        try ledger.checkDraw(round, members[i].account, members[i].vrfX, members[i].vrfY, 10, "") {
            revert("an empty proof was accepted");
        } catch (bytes memory reason) {
            return bytes4(reason) == ECVRF.MessageLengthInvalid.selector;
        }
    }

    /// @dev Ends a round, whichever way it goes.
    function _next(uint64 round) private {
        if (ledger.round(round).drawn < 2) _skip(round);
        else _fail(round);
    }

    function _refuses(uint256 i, uint64 round, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(members[i].account);
        ledger.draw(round, members[i].vrfX, members[i].vrfY, MASK_KEY, SEAL_KEY, 10, "");
    }

    function _notApproved(uint256 i) private view returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotApproved.selector, members[i].account);
    }

    function _notYetActive(uint256 i, uint256 from, uint256 openedAt) private view returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotYetActive.selector, members[i].account, from, openedAt);
    }
}
