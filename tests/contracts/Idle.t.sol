// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {
    ITrainingLedger, Phase, Rate, Settings, SignedDraw, Terms
} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Whom an opening may list, so that nobody waits for it: who may not draw in the round and, where everyone is
/// drawn, who drew in none of the last two sealed rounds of all members (see the settings in Federation).
contract IdleTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(4);
    }

    // --- what a listing does ---

    function test_AnIdleClient_IsNotAwaited_WhenListed() public {
        _failedRounds(7, 2);
        bytes32 model = ledger.currentModel();
        uint64 opens = uint64(vm.getBlockNumber());
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.RoundOpened(3, MODEL, CONFIG, EVERYONE, opens, opens + 2, _accounts(8));
        _as(COORDINATOR);
        uint64 round = ledger.open(model, _accounts(8));
        _equal(ledger.idleIn(members[3].account), round, "idle in");
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _draw(2, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    function test_AListedClient_MayNotDrawInThatRound_ButInTheNext() public {
        _failedRounds(7, 2);
        uint64 round = _openBarring(_accounts(8));
        delete tickets;
        _toDraw(round);
        (bytes memory message,) = _proof(members[3], round);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ListedAsIdle.selector, round, 4);
        vm.expectRevert(refusal);
        _as(members[3].account);
        ledger.draw(round, members[3].vrfX, members[3].vrfY, MASK_KEY, SEAL_KEY, 10, message);
        vm.expectRevert(refusal);
        ledger.checkDraw(round, members[3].account, members[3].vrfX, members[3].vrfY, 10, message);
        SignedDraw[] memory items = new SignedDraw[](1);
        items[0] = _signedDraw(3, round);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawRejected(round, members[3].account, ITrainingLedger.ListedAsIdle.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _draw(0, round);
        _draw(1, round);
        _draw(2, round);
        _seal(round);
        _fail(round);
        round = _openAndDraw(4);
        _equal(ledger.round(round).drawn, 4, "drawn");
        _equal(ledger.idleIn(members[3].account), round - 1, "idle in");
    }

    function test_AListedClient_MayBeListedAgain_UntilItDraws() public {
        _failedRounds(7, 2);
        for (uint256 i = 0; i < 3; ++i) {
            _play(_openBarring(_accounts(8)), 7);
        }
        _play(_open(), 15);
        _refuses(8, _notBarred(3));
        _play(_open(), 7);
        _refuses(8, _notBarred(3));
        _play(_open(), 7);
        _openBarring(_accounts(8));
    }

    function test_SeveralIdleClients_AreListedAtOnce_AndOnlyThey() public {
        _failedRounds(3, 2);
        _refuses(7, _notBarred(0));
        _refuses(10, _notBarred(1));
        _refuses(15, _firstNotBarred(3));
        uint64 round = _openBarring(_accounts(12));
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
    }

    // --- who is idle ---

    function test_OneSealedRoundLess_IsNotEnough() public {
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _openBarring(_accounts(8));
    }

    function test_WhoDrewInTheOldestOfThem_IsNotIdle_WhoDrewInTheOneBeforeIs() public {
        _failedRounds(15, 1);
        _failedRounds(7, 1);
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _openBarring(_accounts(8));
    }

    /// @dev The list may take nobody out who drew, whatever became of the round.
    function test_WhoDrew_Cannot_BeListed_WhateverBecameOfTheRound() public {
        _failedRounds(7, 2);
        for (uint256 i = 0; i < 5; ++i) {
            uint256 before = vm.snapshotState();
            uint64 round = _open();
            _toDraw(round);
            _draw(3, round);
            if (i == 0) {
                _skip(round);
            } else if (i == 1) {
                _draw(0, round);
                _fail(round); // never sealed
            } else {
                _draw(0, round);
                _seal(round);
                if (i == 2) {
                    _fail(round);
                } else {
                    _finish(round);
                    if (i == 4) {
                        _judge(0, round, 0, 0);
                        _judge(3, round, 0, 0);
                        _inPhase(round, Phase.Voided);
                        vm.roll(vm.getBlockNumber() + 4);
                    }
                }
            }
            bytes32 model = ledger.currentModel();
            vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, round + 1, members[3].account));
            _as(i == 4 ? members[0].account : COORDINATOR);
            ledger.open(model, _accounts(8));
            vm.revertToState(before);
        }
    }

    /// @dev Who cannot get a quorum together can have nobody listed.
    function test_RoundsThatWereNotSealed_DoNotCount() public {
        _failedRounds(7, 1);
        for (uint256 i = 0; i < 3; ++i) {
            uint64 round = _openAndDraw(3);
            _fail(round);
            _skip(_openAndDraw(1));
        }
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _openBarring(_accounts(8));
    }

    function test_SealedRounds_Count_WhetherTheyClosedOrNot() public {
        uint64 round = _closed(3, 3);
        _failedRounds(7, 1);
        _openBarring(_accounts(8));
        require(round == 1, "first");
    }

    function test_WhoWasActiveOnlyAfterTheOldestOpened_IsNotIdle() public {
        uint64 round = _open();
        _join(1);
        _play(round, 7);
        _failedRounds(7, 1);
        _refuses(16, _notBarred(4));
        _openBarring(_accounts(8));
    }

    function test_WhoBecameActiveInTheBlockOfTheOldestOpening_IsIdle() public {
        _join(1); // and no block more
        _equal(registry.clientOf(members[4].account).activeFrom, vm.getBlockNumber(), "activeFrom");
        _failedRounds(7, 2);
        _openBarring(_accounts(16));
    }

    function testFuzz_TheRing_HoldsAsManyRoundsAsTheLimit(uint8 limit) public {
        Settings memory s = _settings();
        s.absenceLimit = 1 + limit % 5;
        _redeploy(Membership.Open, s, _terms());
        _join(3);
        for (uint256 cycle = 0; cycle < 2; ++cycle) {
            _failedRounds(7, 1);
            for (uint256 i = 0; i < s.absenceLimit; ++i) {
                _refuses(4, _notBarred(2));
                _failedRounds(3, 1);
            }
            uint256 before = vm.snapshotState();
            _openBarring(_accounts(4));
            vm.revertToState(before);
        }
    }

    // --- coming back ---

    function test_WhoResumed_Cannot_BeListedAsIdle_ForAsManyRounds() public {
        _failedRounds(7, 3);
        _as(members[3].account);
        registry.resume();
        vm.roll(vm.getBlockNumber() + DELAY);
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _refuses(8, _notBarred(3));
        _failedRounds(7, 1);
        _openBarring(_accounts(8));
    }

    /// @dev It may not draw in a round that opens before it is active, and so is barred, but not idle.
    function test_WhoResumedTooLate_IsBarredWithoutBeingIdle() public {
        _failedRounds(7, 2);
        _as(members[3].account);
        registry.resume();
        vm.roll(vm.getBlockNumber() + DELAY - 1);
        uint64 round = _openBarring(_accounts(8));
        _equal(ledger.idleIn(members[3].account), 0, "idle in");
        _toDraw(round);
        (bytes memory message,) = _proof(members[3], round);
        vm.expectPartialRevert(ITrainingLedger.NotYetActive.selector);
        _as(members[3].account);
        ledger.draw(round, members[3].vrfX, members[3].vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }

    function test_AListedClient_Cannot_ResumeIntoTheRunningRound() public {
        _failedRounds(7, 2);
        uint64 round = _openBarring(_accounts(8));
        _as(members[3].account);
        registry.resume();
        _toDraw(round);
        vm.roll(_windowEnd(round));
        (bytes memory message,) = _proof(members[3], round);
        vm.expectPartialRevert(ITrainingLedger.NotYetActive.selector);
        _as(members[3].account);
        ledger.draw(round, members[3].vrfX, members[3].vrfY, MASK_KEY, SEAL_KEY, 10, message);
        _skip(round);
        _equal(ledger.round(_openAndDraw(4)).drawn, 4, "drawn");
    }

    /// @dev Where listed members are needed for the quorum after all, their return is a reason to skip the round.
    function test_TheReturnOfAListedClient_LetsMembersSkipTheRoundThatWaits() public {
        _failedRounds(7, 2);
        uint64 round = _openBarring(_accounts(8));
        _toDraw(round);
        _draw(0, round);
        vm.roll(_windowEnd(round) + 10);
        _as(members[3].account);
        registry.resume();
        vm.roll(vm.getBlockNumber() + DELAY);
        _as(members[3].account);
        ledger.skip(round);
        vm.roll(vm.getBlockNumber() + 4);
        _as(members[3].account);
        ledger.open(MODEL, _nobody());
    }

    // --- rounds that draw some ---

    function test_BelowARateOfOne_NobodyIsIdle() public {
        _rates(3);
        _failedRounds(7, 2);
        _refuses(8, _notBarred(3));
        _play(_open(), 7);
        _refuses(8, _notBarred(3));
    }

    function test_RoundsThatDrawSome_DoNotCount_ButDrawsInThemDo() public {
        Terms memory t = _terms();
        t.rates = new Rate[](3);
        (t.rates[0], t.rates[1], t.rates[2]) = (Rate(1, EVERYONE), Rate(2, EVERYONE - 1), Rate(4, EVERYONE));
        _redeploy(Membership.Open, _settings(), t);
        _join(4);
        _failedRounds(3, 1); // all
        _failedRounds(7, 2); // some
        _refuses(8, _notBarred(3)); // of all members only one was sealed
        _failedRounds(3, 1);
        uint256 before = vm.snapshotState();
        _openBarring(_accounts(8));
        vm.revertToState(before);
        _refuses(4, _notBarred(2)); // drew since, though in no round of all members
    }

    /// @dev One opening with a wrong list stopped every reader for good.
    function test_AWrongList_IsRefusedAtEveryRate() public {
        uint32[3] memory rates = [uint32(1), EVERYONE - 1, EVERYONE];
        for (uint256 i = 0; i < 3; ++i) {
            _redeploy(Membership.Open, _settings(), _termsAt(rates[i]));
            _join(3);
            _as(members[1].account);
            registry.withdraw(0, DIGEST);
            _as(members[2].account);
            registry.withdraw(0, DIGEST);
            address[] memory two = _accounts(6);
            bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.BarredNotAscending.selector, two[0]);
            _refusesList(_pair(two[1], two[0]), refusal);
            _refusesList(_pair(two[0], two[0]), refusal);
            refusal = abi.encodeWithSelector(ITrainingLedger.BarredNotAscending.selector, address(0));
            _refusesList(_pair(address(0), two[0]), refusal);
            _refusesList(
                _pair(STRANGER, two[0]), abi.encodeWithSelector(ITrainingLedger.AccountNotRegistered.selector, STRANGER)
            );
            _refuses(1, _notBarred(0));
            _refuses(7, _notBarred(0));
            uint64 round = _openBarring(two);
            _equal(ledger.idleIn(members[1].account), 0, "who may not draw is not idle");
            _equal(round, 1, "round");
        }
    }

    // --- any history ---

    /// @dev Rounds at both rates, sealed or not, in which anybody draws; one member comes back now and then. Before each,
    /// an opening that lists one member is accepted exactly if that may not draw, or everyone is drawn and it is idle.
    /// forge-config: default.fuzz.runs = 32
    function testFuzz_WhoMayBeListed_IsKnownThroughAnyHistory(uint256 history) public {
        _rates(6);
        uint64[] memory full = new uint64[](16);
        uint256[] memory drew = new uint256[](16);
        uint256 fullCount = 0;
        uint64 round = 0;
        for (uint256 i = 0; i < 8; ++i) {
            uint256 draws = (history & 15) | (history & 16 == 0 ? 3 : 0);
            if (history & 224 == 0) {
                _as(members[3].account);
                registry.resume();
            }
            vm.roll(vm.getBlockNumber() + ((history >> 8) & 3));
            history >>= 10;
            uint64 since = fullCount < 2 ? 0 : full[fullCount - 2];
            for (uint256 k = 0; k < 4; ++k) {
                _checkListing(k, round + 1, since, _hasDrawn(drew, since, round, k));
            }
            round = _open();
            drew[round] = _playAny(round, draws);
            bool isSealed = ledger.round(round).orderRoot != 0;
            if (isSealed && ledger.round(round).samplingRate == EVERYONE) full[fullCount++] = round;
        }
    }

    function _hasDrawn(uint256[] memory drew, uint64 since, uint64 last, uint256 k) private pure returns (bool) {
        for (uint64 r = since; r <= last; ++r) {
            if ((drew[r] >> k) & 1 == 1) return true;
        }
        return false;
    }

    function _checkListing(uint256 k, uint64 next, uint64 since, bool hasDrawn) private {
        uint256 activeFrom = registry.clientOf(members[k].account).activeFrom;
        bool isFull = next < 6;
        bool isIdle =
            isFull && since != 0 && !hasDrawn && activeFrom <= ledger.round(since).openedAt;
        bool expected = activeFrom > vm.getBlockNumber() || isIdle;
        uint256 before = vm.snapshotState();
        _as(COORDINATOR);
        (bool accepted,) = address(ledger).call(abi.encodeCall(ledger.open, (MODEL, _accounts(1 << k))));
        require(accepted == expected, "a list was wrongly accepted or refused");
        if (accepted) {
            bool isListed = ledger.idleIn(members[k].account) == next;
            require(isListed == (activeFrom <= vm.getBlockNumber()), "listed as idle, or not");
        }
        vm.revertToState(before);
    }

    /// @dev Those of `draws` draw who may; returns who did.
    function _playAny(uint64 round, uint256 draws) private returns (uint256 drew) {
        _toDraw(round);
        for (uint256 i = 0; i < 4; ++i) {
            bool mayDraw = registry.clientOf(members[i].account).activeFrom <= ledger.round(round).openedAt;
            if ((draws >> i) & 1 == 0 || !mayDraw) continue;
            _draw(i, round);
            drew |= 1 << i;
        }
        if (_bits(drew) < 2) {
            _skip(round);
        } else {
            if (draws & 8 == 0 || draws & 4 == 0) _seal(round);
            _fail(round);
        }
    }

    // --- helpers ---

    /// @dev `count` rounds in which those of the bits `draws` draw, and which fail after their sealing.
    function _failedRounds(uint256 draws, uint256 count) private {
        for (uint256 i = 0; i < count; ++i) {
            _play(_open(), draws);
        }
    }

    function _play(uint64 round, uint256 draws) private {
        _toDraw(round);
        for (uint256 i = 0; i < members.length; ++i) {
            if ((draws >> i) & 1 == 1) _draw(i, round);
        }
        _seal(round);
        _fail(round);
    }

    /// @dev Members 0 and 3, who drew, bring a round to its closing.
    function _finish(uint64 round) private {
        _share(0, round);
        _share(3, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(3, round);
        vm.roll(ledger.round(round).commitEnd + 1);
        _release(0, round);
        _release(3, round);
        _close(COORDINATOR, round);
    }

    /// @dev A federation of four that draws everyone up to the round before `from`.
    function _rates(uint40 from) private {
        Terms memory t = _terms();
        t.rates = new Rate[](2);
        (t.rates[0], t.rates[1]) = (Rate(1, EVERYONE), Rate(from, EVERYONE - 1));
        _redeploy(Membership.Open, _settings(), t);
        _join(4);
    }

    function _refuses(uint256 bits, bytes memory refusal) private {
        _refusesList(_accounts(bits), refusal);
    }

    function _refusesList(address[] memory barred, bytes memory refusal) private {
        bytes32 model = ledger.currentModel();
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.open(model, barred);
    }

    function _notBarred(uint256 i) private view returns (bytes memory) {
        uint64 round = ledger.currentRound() + 1;
        return abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, round, members[i].account);
    }

    /// @dev For that of the members of these bits with the lowest account.
    function _firstNotBarred(uint256 bits) private view returns (bytes memory) {
        uint64 round = ledger.currentRound() + 1;
        return abi.encodeWithSelector(ITrainingLedger.NotBarred.selector, round, _accounts(bits)[0]);
    }

    function _pair(address a, address b) private pure returns (address[] memory list) {
        list = new address[](2);
        (list[0], list[1]) = (a, b);
    }
}
