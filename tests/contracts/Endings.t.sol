// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice How rounds end: closed, failed, skipped.
contract EndingsTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(4);
    }

    // --- close ---

    function test_Close_ReplacesTheModel_UpToTheEndOfItsWindow() public {
        uint64 round = _released(3, 3);
        RoundView memory view_ = ledger.round(round);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.ZeroDigest.selector, round);
        _refusesClose(COORDINATOR, round, 0, METRICS, refusal);
        _refusesClose(COORDINATOR, round, DIGEST, 0, refusal);
        vm.roll(view_.recoverEnd);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Closed(round, DIGEST, METRICS);
        _as(COORDINATOR);
        ledger.close(round, DIGEST, METRICS);
        _equal(ledger.currentModel(), DIGEST, "model");
        _equal(ledger.lastClosed(), round, "last closed");
        _equal(ledger.closedRounds(), 1, "closed");
        _equal(ledger.round(round).modelDigest, MODEL, "the model trained from");
    }

    function test_Close_OutsideItsWindow_IsRefused() public {
        uint64 round = _openAndDraw(3);
        _refusesClose(round, Phase.Draw);
        _seal(round);
        _refusesClose(round, Phase.Share);
        for (uint256 i = 0; i < 3; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(1, round);
        vm.roll(ledger.round(round).commitEnd);
        _refusesClose(round, Phase.Commit);
        vm.roll(ledger.round(round).commitEnd + 1);
        _release(0, round);
        _release(1, round);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _refusesClose(round, Phase.Overdue);
        _refusesClose(9, Phase.None);
    }

    /// @dev The shares that a right result follows from are on record before any closing.
    function test_Close_NeedsAsManyReleasesAsTheSettingsSay() public {
        for (uint16 needed = 1; needed <= 3; ++needed) {
            Settings memory s = _settings();
            (s.quorum, s.releases) = (3, needed);
            _redeploy(Membership.Open, s, _terms());
            _join(3);
            uint64 round = _committed(3, 3);
            for (uint16 listed = 0; listed < needed; ++listed) {
                bytes memory refusal =
                    abi.encodeWithSelector(ITrainingLedger.ReleasesMissing.selector, round, listed, needed);
                _refusesClose(COORDINATOR, round, DIGEST, METRICS, refusal);
                uint256 before = vm.snapshotState();
                vm.roll(ledger.round(round).recoverEnd);
                _refusesClose(members[0].account, round, DIGEST, METRICS, refusal);
                vm.revertToState(before);
                _release(listed, round);
            }
            _close(COORDINATOR, round);
            _inPhase(round, Phase.Closed);
        }
    }

    /// @dev Nobody, or too few, could have the closing fall.
    function test_Close_WhereTooFewCommitted_IsRefused() public {
        for (uint256 drawn = 2; drawn <= 4; ++drawn) {
            for (uint256 survivors = 0; survivors <= drawn; ++survivors) {
                uint256 before = vm.snapshotState();
                uint64 round = _released(drawn, survivors);
                if (survivors < 2 || 2 * survivors <= drawn) {
                    bytes memory refusal =
                        abi.encodeWithSelector(ITrainingLedger.CommitsMissing.selector, round, survivors, drawn);
                    _refusesClose(COORDINATOR, round, DIGEST, METRICS, refusal);
                    _as(STRANGER);
                    ledger.fail(round);
                } else {
                    vm.expectRevert(_wrongPhase(round, Phase.Recover, Phase.Overdue));
                    _as(STRANGER);
                    ledger.fail(round);
                    _close(COORDINATOR, round);
                }
                vm.revertToState(before);
            }
        }
    }

    function test_AfterTheGraceAndTheirLot_ThoseWhoCommittedMayClose() public {
        uint64 round = _released(3, 2);
        uint256 last = 0;
        for (uint256 i = 0; i < 2; ++i) {
            address account = members[i].account;
            uint256 from = _closerFrom(round, account, 3, 3);
            require(from > ledger.round(round).commitEnd + 3 && from <= ledger.round(round).commitEnd + 7, "the lot");
            if (from > last) last = from;
            vm.roll(from - 1);
            bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, account, from - 1);
            _refusesClose(account, round, DIGEST, METRICS, refusal);
            uint256 before = vm.snapshotState();
            vm.roll(from);
            _close(account, round);
            _inPhase(round, Phase.Closed);
            _equal(ledger.currentModel(), _modelOf(round), "model");
            vm.revertToState(before);
        }
        vm.roll(last - 1);
        _close(COORDINATOR, round); // needs no lot
    }

    function test_WhoDidNotCommit_Cannot_Close_HoweverLate() public {
        uint64 first = _closed(4, 4); // members 2 and 3 committed in this one only
        uint64 round = _released(3, 2);
        require(round == first + 1, "the next round");
        vm.roll(ledger.round(round).recoverEnd);
        address[3] memory others = [members[2].account, members[3].account, STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, others[i]);
            _refusesClose(others[i], round, DIGEST, METRICS, refusal);
        }
    }

    /// @dev Their lots spread them over as many blocks as the grace has.
    function testFuzz_TheLot_DelaysACloserByTheGraceAtMost(uint8 grace) public {
        Settings memory s = _settings();
        (s.coordinatorGrace, s.recoverWindow) = (grace, 4 * uint16(grace) + 1);
        _redeploy(Membership.Open, s, _terms());
        _join(3);
        uint64 round = _released(3, 3);
        uint256 end = ledger.round(round).commitEnd;
        uint256 lot = uint256(keccak256(abi.encode(ledger.round(round).orderRoot, members[1].account)));
        uint256 until = end + grace + lot % (uint256(grace) + 1);
        if (until > end) {
            vm.roll(until);
            bytes memory refusal =
                abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[1].account, until);
            _refusesClose(members[1].account, round, DIGEST, METRICS, refusal);
        }
        vm.roll(until + 1);
        _close(members[1].account, round);
    }

    /// @dev A member that drew nothing but draws may not forge a round alone: it lacks releases, or commitments.
    function test_AMember_Cannot_ForgeARoundAlone() public {
        _fail(_sealed(2));
        vm.roll(vm.getBlockNumber() + 4);
        _as(members[0].account);
        uint64 round = ledger.open(MODEL, _nobody());
        delete tickets;
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _seal(round);
        _share(0, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        vm.roll(ledger.round(round).commitEnd + 1);
        _release(0, round);
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.CommitsMissing.selector, round, 1, 2);
        vm.roll(ledger.round(round).recoverEnd);
        _refusesClose(members[0].account, round, DIGEST, METRICS, refusal);
    }

    function test_AClosedRound_Cannot_BeClosedFailedOrSkipped() public {
        uint64 round = _closed(3, 3);
        _refusesClose(round, Phase.Closed);
        _refusesEnd(round, Phase.Closed);
    }

    function test_AFailedRound_Cannot_BeClosedFailedOrSkipped() public {
        uint64 round = _released(3, 3);
        _fail(round);
        _refusesClose(round, Phase.Failed);
        _refusesEnd(round, Phase.Failed);
    }

    function test_ASkippedRound_Cannot_BeClosedFailedOrSkipped() public {
        uint64 round = _open();
        _skip(round);
        _refusesClose(round, Phase.Skipped);
        _refusesEnd(round, Phase.Skipped);
    }

    // --- fail ---

    function test_Anybody_MayFailAnOverdueRound_AndTheModelStands() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).sealEnd + 1);
        _inPhase(round, Phase.Overdue);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Failed(round);
        _as(STRANGER);
        ledger.fail(round);
        _inPhase(round, Phase.Failed);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(_open(), 2, "next round");
    }

    function test_ARoundIsOverdue_WhenItIsNotClosedInTime() public {
        uint64 round = _released(3, 3);
        vm.roll(ledger.round(round).recoverEnd);
        _refusesFail(round, Phase.Recover);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
        _as(STRANGER);
        ledger.fail(round);
        _equal(ledger.failedRounds(), 1, "failed rounds");
    }

    /// @dev Neither the coordinator nor anybody else, in any phase in which it may still come to something.
    function test_NobodyCanFailARound_BeforeItIsOverdueOrHopeless() public {
        uint64 round = _open();
        _refusesFail(round, Phase.Seeding);
        _toDraw(round);
        _draw(0, round);
        _draw(1, round);
        _draw(2, round);
        _refusesFail(round, Phase.Draw);
        vm.roll(ledger.round(round).drawEnd + 1);
        _refusesFail(round, Phase.Seal);
        _seal(round);
        _refusesFail(round, Phase.Share);
        _share(0, round);
        _share(1, round);
        vm.roll(ledger.round(round).shareEnd + 1);
        _refusesFail(round, Phase.Commit); // nobody has committed, but some still may
        _commit(0, round);
        _commit(1, round);
        vm.roll(vm.getBlockNumber() + 1);
        _refusesFail(round, Phase.Recover);
    }

    function test_ARoundThatWaitsForItsQuorum_Cannot_BeFailed() public {
        uint64 round = _openAndDraw(1);
        vm.roll(vm.getBlockNumber() + 300_000);
        _refusesFail(round, Phase.Draw);
    }

    function test_AHopelessRound_MayBeFailedFromTheEndOfTheCommitsOn() public {
        uint64 round = _sealed(4);
        for (uint256 i = 0; i < 4; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(1, round);
        vm.roll(ledger.round(round).commitEnd);
        _refusesFail(round, Phase.Commit);
        vm.roll(ledger.round(round).commitEnd + 1);
        _as(STRANGER);
        ledger.fail(round);
        _inPhase(round, Phase.Failed);
        _equal(ledger.failedRounds(), 1, "failed rounds");
    }

    function test_TheQuorum_IsNotReplacedByHalfOfTheDrawn() public {
        Settings memory s = _settings();
        s.quorum = 3;
        _redeploy(Membership.Open, s, _terms());
        _join(3);
        uint64 round = _released(3, 2); // more than half, but below the quorum
        _refusesClose(
            COORDINATOR,
            round,
            DIGEST,
            METRICS,
            abi.encodeWithSelector(ITrainingLedger.CommitsMissing.selector, round, 2, 3)
        );
        _as(STRANGER);
        ledger.fail(round);
    }

    function test_ARoundThatDoesNotExist_Cannot_Fail() public {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, 9, Phase.None));
        _as(STRANGER);
        ledger.fail(9);
    }

    // --- skip ---

    function test_TheCoordinator_MaySkipARoundBelowTheQuorum_AfterTheDrawWindow() public {
        uint64 round = _openAndDraw(1);
        uint256 end = _windowEnd(round);
        vm.roll(end);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.DrawStillOpen.selector, round, end));
        _as(COORDINATOR);
        ledger.skip(round);
        vm.roll(end + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Skipped(round, 1);
        _as(COORDINATOR);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
        _equal(ledger.failedRounds(), 0, "failed rounds");
        _equal(_open(), 2, "next round");
    }

    function test_ARoundWithAQuorum_Cannot_BeSkipped() public {
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 1);
        _draw(1, round); // late, but enough
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.QuorumReached.selector, round, 2, 2);
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.skip(round);
        vm.roll(ledger.round(round).sealEnd + 1);
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.skip(round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, 9, Phase.None));
        _as(COORDINATOR);
        ledger.skip(9);
    }

    function test_AMember_Cannot_SkipARoundOfAllMembers_WithoutAReason() public {
        uint64 round = _openAndDraw(1);
        uint64 openedAt = ledger.round(round).openedAt;
        uint64 changedAt = registry.changedAt();
        uint256 until = _windowEnd(round) + 3;
        vm.roll(until);
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until);
        _refusesSkip(0, round, refusal);
        refusal = abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, changedAt);
        vm.roll(until + 1);
        _refusesSkip(0, round, refusal);
        vm.roll(openedAt + (1 << 16) - 1);
        _refusesSkip(0, round, refusal);
        vm.roll(openedAt + (1 << 16));
        _as(members[0].account);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
    }

    function test_AMember_MaySkipARoundThatDrawsSome_AfterTheGrace() public {
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        _join(3);
        uint64 round = _openAndDraw(1);
        uint256 until = _windowEnd(round) + 3;
        vm.roll(until);
        _refusesSkip(
            2, round, abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[2].account, until)
        );
        vm.roll(until + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, STRANGER));
        _as(STRANGER);
        ledger.skip(round);
        _as(members[2].account);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
    }

    /// @dev Somebody may have come who could draw in the next round, or be gone who is missing in this.
    function test_AMember_MaySkip_WhereMembersChangedSinceTheOpening() public {
        _redeploy(Membership.Approved, _settings(), _terms());
        _join(3);
        bytes[] memory changes = new bytes[](6);
        changes[0] = abi.encodeCall(registry.withdraw, (0, DIGEST));
        changes[1] = abi.encodeCall(registry.resume, ());
        changes[2] = abi.encodeCall(registry.revoke, (members[2].account));
        // These change nobody's membership.
        changes[3] = abi.encodeCall(registry.withdraw, (1, DIGEST));
        changes[4] = abi.encodeCall(registry.rotateMailboxKey, (DIGEST));
        changes[5] = abi.encodeCall(registry.approve, (_accounts(7)));
        for (uint256 i = 0; i < changes.length; ++i) {
            uint256 before = vm.snapshotState();
            uint64 round = _openAndDraw(1);
            vm.roll(_windowEnd(round) + 4);
            bytes memory refusal =
                abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, registry.changedAt());
            _refusesSkip(0, round, refusal);
            _as(i == 2 || i == 5 ? ADMIN : members[2].account);
            (bool done,) = address(registry).call(changes[i]);
            require(done, "a change was refused");
            if (i < 3) {
                _as(members[0].account);
                ledger.skip(round);
                _inPhase(round, Phase.Skipped);
            } else {
                _refusesSkip(0, round, refusal);
            }
            vm.revertToState(before);
        }
    }

    /// @dev Who is a member no more gives members no reason to skip.
    function test_WhoIsNoMember_Cannot_MakeAReasonToSkip() public {
        _redeploy(Membership.Approved, _settings(), _terms());
        _join(4);
        _revoke(members[2].account);
        _as(members[3].account);
        registry.withdraw(0, DIGEST);
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 4);
        uint64 changedAt = registry.changedAt();
        for (uint256 i = 2; i < 4; ++i) {
            _as(members[i].account);
            registry.resume();
            _as(members[i].account);
            registry.withdraw(0, DIGEST);
        }
        _approve(members[3].account);
        _revoke(members[3].account);
        _approve(STRANGER);
        _revoke(STRANGER);
        _equal(registry.changedAt(), changedAt, "changed at");
        _refusesSkip(0, round, abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, changedAt));
    }

    /// @dev It could stop rounds alone by coming back at once, again and again; it is not active while it does.
    function test_WhoComesBack_Cannot_SkipByItBeforeItIsActive() public {
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 4);
        _as(members[2].account);
        registry.resume();
        _refusesSkip(2, round, abi.encodeWithSelector(ITrainingLedger.NotActiveClient.selector, members[2].account));
    }

    /// @dev That much a member can do alone: what waits for its quorum then waits in another round. It stops no round
    /// that has a quorum, and no repeat is used.
    function test_WhoComesBack_MaySkipByIt_ButStopsNothingThatGoesOn() public {
        for (uint256 i = 0; i < 3; ++i) {
            uint64 round = _openAndDraw(1);
            vm.roll(_windowEnd(round) + 4);
            _as(members[3].account);
            registry.resume();
            vm.roll(vm.getBlockNumber() + DELAY);
            _as(members[3].account);
            ledger.skip(round);
        }
        _equal(ledger.failedRounds(), 0, "failed rounds");
        uint64 full = _openAndDraw(2);
        vm.roll(ledger.round(full).drawEnd);
        _as(members[3].account);
        registry.resume();
        vm.roll(_windowEnd(full) + 4);
        _refusesSkip(3, full, abi.encodeWithSelector(ITrainingLedger.QuorumReached.selector, full, 2, 2));
    }

    function test_AChangeInTheBlockOfTheOpening_IsAReason_OneBeforeIsNot() public {
        _as(members[3].account);
        registry.resume();
        uint256 before = vm.snapshotState();
        vm.roll(vm.getBlockNumber() + 1);
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 4);
        _refusesSkip(
            0, round, abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, registry.changedAt())
        );
        vm.revertToState(before);
        round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 4);
        _as(members[0].account);
        ledger.skip(round);
    }

    function test_AMember_MaySkip_WhereTheSeedIsLost() public {
        uint64 round = _open();
        uint256 seedBlock = ledger.round(round).seedBlock;
        vm.roll(seedBlock + 256);
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, registry.changedAt());
        _refusesSkip(0, round, refusal);
        vm.roll(seedBlock + 257);
        vm.mockCall(HISTORY, abi.encode(seedBlock), abi.encode(keccak256("still known"))); // not on every chain
        _as(members[0].account);
        ledger.skip(round);
        _inPhase(round, Phase.Skipped);
        _equal(ledger.failedRounds(), 0, "failed rounds");
    }

    function test_AFixedSeed_IsNeverLost() public {
        uint64 round = _openAndDraw(1);
        vm.roll(_windowEnd(round) + 10_000);
        _refusesSkip(
            0, round, abi.encodeWithSelector(ITrainingLedger.MembersUnchanged.selector, round, registry.changedAt())
        );
    }

    // --- helpers ---

    function _refusesClose(address closer, uint64 round, bytes32 model, bytes32 metrics, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(closer);
        ledger.close(round, model, metrics);
    }

    function _refusesClose(uint64 round, Phase current) private {
        _refusesClose(COORDINATOR, round, DIGEST, METRICS, _wrongPhase(round, current, Phase.Recover));
    }

    /// @dev By the coordinator and by somebody who is nobody.
    function _refusesFail(uint64 round, Phase current) private {
        vm.expectRevert(_wrongPhase(round, current, Phase.Overdue));
        _as(COORDINATOR);
        ledger.fail(round);
        vm.expectRevert(_wrongPhase(round, current, Phase.Overdue));
        _as(STRANGER);
        ledger.fail(round);
    }

    function _refusesEnd(uint64 round, Phase current) private {
        bytes memory refusal = abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, round, current);
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.fail(round);
        vm.expectRevert(refusal);
        _as(COORDINATOR);
        ledger.skip(round);
    }

    function _refusesSkip(uint256 i, uint64 round, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _as(members[i].account);
        ledger.skip(round);
    }
}
