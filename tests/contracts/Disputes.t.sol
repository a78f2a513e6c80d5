// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FailureReason, ITrainingLedger, Phase} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice What the clients of a closed round may say against it, and what a majority brings about.
contract DisputesTest is Federation {
    bytes32 private constant EVIDENCE = keccak256("evidence");

    /// @dev Who committed in the latest closed round, by bits; see the last test.
    uint256 private _standing;

    function setUp() public {
        _deploy(true);
        _join(4);
    }

    // --- who may ---

    function test_BeforeARoundClosed_NothingCanBeDisputed() public {
        _refuses(0, 0, _notDisputable(0, 0));
        uint64 round = _committed(3, 3);
        _refuses(0, 0, _notDisputable(0, 0));
        _refuses(0, round, _notDisputable(round, 0));
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.InvalidUpdate, 0);
        _refuses(0, round, _notDisputable(round, 0));
        _equal(ledger.lastClosed(), 0, "last closed");
    }

    function test_AClientThatCommitted_MayDisputeOnce() public {
        uint64 round = _closed(4, 4);
        _equal(ledger.lastClosed(), round, "last closed");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Disputed(round, 2, EVIDENCE);
        _dispute(1, round);
        _refuses(1, round, abi.encodeWithSelector(ITrainingLedger.AlreadyDisputed.selector, round, 2));
        _open();
        _refuses(1, round, abi.encodeWithSelector(ITrainingLedger.AlreadyDisputed.selector, round, 2));
        _inPhase(round, Phase.Closed);
    }

    function test_NobodyWhoDidNotCommit_MayDispute() public {
        uint64 round = _closed(3, 2);
        _refusesAccount(members[2].account, round); // drew
        _refusesAccount(members[3].account, round); // did not
        _refusesAccount(COORDINATOR, round);
        _refusesAccount(STRANGER, round);
    }

    function test_OnlyTheLatestClosedRound_CanBeDisputed() public {
        uint64 first = _closed(4, 4);
        _dispute(0, first);
        _dispute(1, first);
        uint64 second = _closed(4, 4);
        _refuses(2, first, _notDisputable(first, second));
        _refuses(2, second + 1, _notDisputable(second + 1, second));
        _inPhase(first, Phase.Closed);
        _dispute(2, second); // those of the first round do not count
        _dispute(0, second);
        _inPhase(second, Phase.Closed);
    }

    function test_ARoundThatNobodyCommittedIn_HasNobodyWhoMayDisputeIt() public {
        uint64 round = _closed(3, 0);
        for (uint256 i = 0; i < 4; ++i) {
            _refusesAccount(members[i].account, round);
        }
    }

    // --- by whom it is still possible later ---

    function test_AClientThatDrewInTheNextRound_MayDisputeTheOneBefore() public {
        uint64 round = _closed(4, 2);
        _openAndDraw(4);
        _refusesAccount(members[2].account, round);
        _dispute(0, round);
        _dispute(1, round);
        _inPhase(round, Phase.Voided);
    }

    function test_AfterRoundsWithoutAModel_ThoseWhoCommittedMayDispute_WheneverTheyDrew() public {
        uint64 round = _closed(4, 2); // by members 0 and 1
        _play(13, 13, false); // 1 draws no more, 2 and 3 commit
        _play(0, 0, false);
        uint64 running = _play(15, 0, true); // 1 draws after rounds without it
        _refusesAccount(members[2].account, round);
        _refusesAccount(members[3].account, round);
        _dispute(0, round);
        _dispute(1, round);
        _inPhase(round, Phase.Voided);
        _inPhase(running, Phase.Voided);
    }

    function test_HavingCommittedInAnEarlierClosedRound_IsNotEnough() public {
        _closed(4, 4);
        uint64 round = _closed(4, 2);
        _refusesAccount(members[3].account, round);
        _play(0, 0, false);
        _play(15, 0, true);
        _refusesAccount(members[3].account, round);
        _dispute(0, round);
    }

    // --- what a majority brings about ---

    function test_HalfOfTheClients_DoNotVoidARound_MoreThanHalfDo() public {
        uint64 round = _closed(4, 4);
        bytes32 model = ledger.currentModel();
        _dispute(0, round);
        _dispute(3, round);
        _inPhase(round, Phase.Closed);
        _equal(ledger.currentModel(), model, "model");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Disputed(round, 3, EVIDENCE);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(round, MODEL, 3);
        _dispute(2, round);
        _inPhase(round, Phase.Voided);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.lastClosed(), 0, "last closed");
        _equal(ledger.currentRound(), round, "current round");
        _refuses(1, round, _notDisputable(round, 0));
    }

    /// @dev The majority is one of the clients that committed, not of those that drew.
    function test_ARoundIsVoid_ExactlyWhenMoreThanHalfDisputeIt() public {
        for (uint8 survivors = 0; survivors < 5; ++survivors) {
            for (uint256 who = 0; who < uint256(1) << survivors; ++who) {
                uint256 before = vm.snapshotState();
                _disputedBy(survivors, who);
                vm.revertToState(before);
            }
        }
    }

    function _disputedBy(uint8 survivors, uint256 who) private {
        uint64 round = _closed(4, survivors);
        uint256 disputes = 0;
        for (uint256 i = 0; i < survivors; ++i) {
            if ((who >> i) & 1 == 0) continue;
            if (2 * disputes > survivors) break;
            _dispute(i, round);
            disputes += 1;
        }
        _inPhase(round, 2 * disputes > survivors ? Phase.Voided : Phase.Closed);
    }

    function test_TheNextRound_MustStartFromTheModelThatStandsAgain() public {
        _closed(4, 4);
        bytes32 standing = ledger.currentModel();
        _void(_closed(4, 4));
        bytes32 void = keccak256(abi.encode("model", uint64(2)));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongModel.selector, void, standing));
        _as(COORDINATOR);
        ledger.open(void, _nobody());
        _as(COORDINATOR);
        _equal(ledger.open(standing, _nobody()), 3, "round");
        _equal(ledger.round(3).modelDigest, standing, "the model trained from");
    }

    function test_AfterAVoiding_TheRoundBeforeCannotBeDisputed_TheNextClosedOneCan() public {
        uint64 first = _closed(4, 4);
        uint64 second = _closed(4, 4);
        _void(second);
        _refuses(0, first, _notDisputable(first, 0));
        _refuses(3, second, _notDisputable(second, 0));
        uint64 third = _closed(4, 2);
        _refusesAccount(members[3].account, third); // what it committed is void
        _dispute(0, third);
        _dispute(1, third);
        _inPhase(third, Phase.Voided);
        _equal(ledger.currentModel(), keccak256(abi.encode("model", first)), "model");
    }

    /// @dev `blocks` takes the round through all phases that need no more than time.
    function test_TheRoundThatRunsOnAVoidModel_IsVoidToo() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _openAndDraw(3);
        for (uint256 blocks = 0; blocks < 20; ++blocks) { // draw, seal, overdue
            uint256 before = vm.snapshotState();
            vm.roll(vm.getBlockNumber() + blocks);
            _bothAreVoid(closed, running);
            vm.revertToState(before);
        }
    }

    function _bothAreVoid(uint64 closed, uint64 running) private {
        _voidBoth(closed, running);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, running, Phase.Voided));
        _as(STRANGER);
        ledger.skip(running);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.RoundEnded.selector, running, Phase.Voided));
        _as(STRANGER);
        ledger.fail(running, FailureReason.Deadline, 0);
        vm.expectRevert(_wrongPhase(running, Phase.Draw));
        _as(STRANGER);
        ledger.fixSeed(running);
        vm.expectRevert(_wrongPhase(running, Phase.Seal));
        _as(STRANGER);
        ledger.seal(running, "", "", "");
        _equal(_open(), running + 1, "next round");
    }

    function test_AVoidRound_TakesNoMoreRecords() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _committed(3, 3);
        _voidBoth(closed, running);
        vm.expectRevert(_wrongPhase(running, Phase.Share));
        _share(0, running);
        vm.expectRevert(_wrongPhase(running, Phase.Commit));
        _commit(0, running);
        vm.expectRevert(_wrongPhase(running, Phase.Recover));
        _as(members[0].account);
        ledger.release(running, 0);
        vm.expectRevert(_wrongPhase(running, Phase.Recover));
        _as(COORDINATOR);
        ledger.recover(running, 0);
        vm.expectRevert(_wrongPhase(running, Phase.Close));
        _as(COORDINATOR);
        ledger.close(running, EVIDENCE, 0);
        vm.expectRevert(_wrongPhase(closed, Phase.Close));
        _as(COORDINATOR);
        ledger.close(closed, EVIDENCE, 0);
    }

    function test_ARoundThatIsRecovered_IsVoidBeforeItCloses() public {
        uint64 closed = _closed(4, 4);
        _voidBoth(closed, _recovered(4, 4));
        _equal(ledger.currentModel(), MODEL, "model");
    }

    function test_RoundsThatEndedSinceTheClosing_StayAsTheyAre() public {
        uint64 closed = _closed(4, 4);
        uint64 skipped = _open();
        vm.roll(ledger.round(skipped).drawEnd + 1);
        _as(STRANGER);
        ledger.skip(skipped);
        uint64 failed = _play(15, 15, false);
        _void(closed);
        _inPhase(skipped, Phase.Skipped);
        _inPhase(failed, Phase.Failed);
        _equal(ledger.currentModel(), MODEL, "model");
        _equal(ledger.currentRound(), failed, "current round");
        _equal(_open(), failed + 1, "next round");
    }

    // --- what a voiding leaves alone ---

    function test_NobodyIsAbsent_InAVoidedRound() public {
        uint64 closed = _closed(4, 3);
        uint64 running = _sealed(3);
        _void(closed);
        _refusesReport(running, running);
        _refusesReport(closed, running);
    }

    function test_NobodyIsAbsent_InAClosedRoundThatBecameVoid() public {
        uint64 round = _closed(4, 3);
        _void(round);
        _refusesReport(round, round);
    }

    function test_TheGrace_CountsFromTheVoiding() public {
        _closed(4, 4);
        uint64 round = _closed(4, 4);
        bytes32 model = keccak256(abi.encode("model", uint64(1)));
        vm.roll(vm.getBlockNumber() + 50);
        _void(round);
        uint256 until = vm.getBlockNumber() + 3;
        vm.roll(until);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.OnlyCoordinator.selector, members[0].account, until));
        _as(members[0].account);
        ledger.open(model, _nobody());
        vm.roll(until + 1);
        _as(members[0].account);
        _equal(ledger.open(model, _nobody()), 3, "round");
    }

    function test_TheNextSeed_StillFollowsFromTheLatestOrder() public {
        uint64 closed = _closed(4, 4);
        uint64 running = _sealed(3);
        _voidBoth(closed, running);
        uint64 next = _open();
        _toDraw(next);
        _as(STRANGER);
        ledger.fixSeed(next);
        bytes32 blockHash = keccak256(abi.encode("block", next));
        bytes32 seed = keccak256(abi.encode(blockHash, ledger.round(running).orderRoot));
        _equal(ledger.round(next).seed, seed, "seed");
    }

    /// @dev Six rounds, of each of which `history` says who draws, who commits and whether it closes; after each, those
    /// and only those who committed in the latest closed one may dispute it.
    function testFuzz_WhoMayDispute_IsKnownThroughAnyHistory(uint256 history) public {
        uint64 standing = 0;
        for (uint256 i = 0; i < 6; ++i) {
            uint256 draws = history & 15;
            uint256 commits = draws & (history >> 4);
            bool closes = (history >> 8) & 1 == 1 && _bits(draws) >= 2;
            uint64 round = closes ? _playToTheClosing(draws, commits) : _play(draws, commits, false);
            if (closes) {
                standing = round;
                _standing = commits;
            }
            if (standing != 0) _onlyThoseWhoCommitted(standing);
            history >>= 9;
        }
    }

    /// @dev Tries all disputes and takes them back.
    function _onlyThoseWhoCommitted(uint64 round) private {
        for (uint256 i = 0; i < 4; ++i) {
            uint256 before = vm.snapshotState();
            if ((_standing >> i) & 1 == 1) _dispute(i, round);
            else _refusesAccount(members[i].account, round);
            vm.revertToState(before);
        }
    }

    // --- rounds ---

    /// @dev A round in which the members of the bits `draws` draw and, if they are a quorum, those of `commits` commit.
    /// It is left running, as far as it came, or it is skipped or fails.
    function _play(uint256 draws, uint256 commits, bool running) private returns (uint64 round) {
        round = _open();
        _toDraw(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((draws >> i) & 1 == 1) _draw(i, round);
        }
        if (_bits(draws) < 2) {
            vm.roll(ledger.round(round).drawEnd + 1);
            if (running) return round;
            _as(STRANGER);
            ledger.skip(round);
            return round;
        }
        _seal(round);
        for (uint256 i = 0; i < 4; ++i) {
            if ((commits >> i) & 1 == 1) _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        for (uint256 i = 0; i < 4; ++i) {
            if ((commits >> i) & 1 == 1) _commit(i, round);
        }
        vm.roll(ledger.round(round).commitEnd + 1);
        if (running) return round;
        _as(COORDINATOR);
        ledger.fail(round, FailureReason.TooFewSurvivors, 0);
    }

    function _playToTheClosing(uint256 draws, uint256 commits) private returns (uint64 round) {
        round = _play(draws, commits, true);
        _as(COORDINATOR);
        ledger.recover(round, keccak256("recovery"));
        _as(COORDINATOR);
        ledger.close(round, keccak256(abi.encode("model", round)), keccak256("metrics"));
    }

    function _bits(uint256 word) private pure returns (uint256 count) {
        for (; word != 0; word >>= 1) {
            count += word & 1;
        }
    }

    // --- disputes ---

    function _dispute(uint256 i, uint64 round) private {
        _as(members[i].account);
        ledger.disputeRound(round, EVIDENCE);
    }

    /// @dev By members 0, 1 and 2, who committed.
    function _void(uint64 round) private {
        _dispute(0, round);
        _dispute(1, round);
        if (ledger.phase(round) == Phase.Closed) _dispute(2, round);
        _inPhase(round, Phase.Voided);
    }

    function _voidBoth(uint64 closed, uint64 running) private {
        _dispute(0, closed);
        _dispute(1, closed);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(closed, MODEL, 3);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Voided(running, MODEL, 0);
        _dispute(2, closed);
        _inPhase(closed, Phase.Voided);
        _inPhase(running, Phase.Voided);
    }

    function _refuses(uint256 i, uint64 round, bytes memory refusal) private {
        vm.expectRevert(refusal);
        _dispute(i, round);
    }

    function _refusesAccount(address account, uint64 round) private {
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotCommitted.selector, round, account));
        _as(account);
        ledger.disputeRound(round, EVIDENCE);
    }

    function _refusesReport(uint64 round, uint64 latest) private {
        address[] memory accounts = new address[](1);
        accounts[0] = members[3].account;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotLatestClosed.selector, round, latest));
        _as(STRANGER);
        ledger.reportAbsences(round, accounts);
    }

    function _notDisputable(uint64 round, uint64 standing) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.NotDisputable.selector, round, standing);
    }

    function _wrongPhase(uint64 round, Phase required) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Voided, required);
    }
}
