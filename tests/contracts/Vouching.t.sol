// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingLedger, Phase, RoundView, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {BoundedFederation} from "./harness/BoundedFederation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Where updates are bounded: vouchers, affirmations and reveals, and the sketch that they are about.
contract VouchingTest is BoundedFederation {
    // --- windows ---

    function test_ThePhases_FollowTheCommits_EachWithItsWindow() public {
        uint64 round = _committed(4, 3);
        RoundView memory view_ = ledger.round(round);
        _equal(view_.sketchBlock, view_.commitEnd + _settings().orderDelay, "block of the sketch");
        _equal(view_.vouchEnd, view_.sketchBlock + 8, "end of the vouchers");
        _equal(view_.affirmEnd, view_.vouchEnd + 9, "end of the affirmations");
        _equal(view_.recoverEnd, view_.affirmEnd + _settings().recoverWindow, "end of the recovery");
        _equal(view_.closeEnd, view_.recoverEnd, "end of the closing");
        Phase[5] memory phases = [Phase.Commit, Phase.Vouch, Phase.Affirm, Phase.Recover, Phase.Overdue];
        uint64[5] memory ends = [view_.commitEnd, view_.vouchEnd, view_.affirmEnd, view_.recoverEnd, 0];
        for (uint256 i = 0; i < 5; ++i) {
            if (i > 0) {
                vm.roll(ends[i - 1] + 1);
                _inPhase(round, phases[i]);
            }
            if (ends[i] != 0) {
                vm.roll(ends[i]);
                _inPhase(round, phases[i]);
            }
        }
    }

    function test_Vouch_IsAcceptedInItsWindowOnly_OnceTheSketchIsThere() public {
        uint64 round = _sealed(4);
        for (uint256 i = 0; i < 4; ++i) {
            _share(i, round);
        }
        vm.roll(ledger.round(round).shareEnd + 1);
        _commit(0, round);
        _commit(1, round);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.commitEnd);
        _refuse(_wrongPhase(round, Phase.Commit, Phase.Vouch));
        _vouch(0, round);
        vm.roll(view_.sketchBlock);
        _refuse(abi.encodeWithSelector(ITrainingLedger.SketchBlockNotPast.selector, round, view_.sketchBlock));
        _vouch(0, round);
        vm.roll(view_.sketchBlock + 1);
        vm.setBlockhash(view_.sketchBlock, _sketchHashOf(round));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Vouched(round, 1, _sketchHashOf(round), DIGEST);
        _vouch(0, round);
        _equal(ledger.round(round).sketchHash, _sketchHashOf(round), "hash of the sketch's block");
        vm.roll(view_.vouchEnd + 1);
        _refuse(_wrongPhase(round, Phase.Affirm, Phase.Vouch));
        _vouch(1, round);
    }

    function test_Affirm_IsAcceptedInItsWindowOnly() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.vouchEnd);
        _refuse(_wrongPhase(round, Phase.Vouch, Phase.Affirm));
        _affirm(0, round);
        vm.roll(view_.vouchEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Affirmed(round, 1, _sketchHashOf(round), WORD);
        _affirm(0, round);
        vm.roll(view_.affirmEnd);
        _affirm(3, round); // who did not vouch may
        vm.roll(view_.affirmEnd + 1);
        _refuse(_wrongPhase(round, Phase.Recover, Phase.Affirm));
        _affirm(1, round);
    }

    function test_Reveal_IsAcceptedAfterTheVouchers_UntilTheRoundEnds() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        _vouch(1, round);
        _vouch(2, round);
        vm.roll(ledger.round(round).vouchEnd);
        _refuse(_wrongPhase(round, Phase.Vouch, Phase.Affirm));
        _reveal(0, round);
        vm.roll(ledger.round(round).vouchEnd + 1);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Revealed(round, 1, _sketchHashOf(round), DIGEST);
        _reveal(0, round);
        vm.roll(ledger.round(round).recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
        _reveal(3, round);
        _fail(round);
        _refuse(_wrongPhase(round, Phase.Failed, Phase.Affirm));
        _reveal(1, round);
    }

    /// @dev So that a member cannot fill blocks, and however many lie about it, what it has to say fits into one blob.
    function test_Reveal_IsAcceptedEightTimes_AndFromEachClient() public {
        uint64 round = _toAffirm(4);
        for (uint256 k = 0; k < 8; ++k) {
            _reveal(0, round);
        }
        _refuse(abi.encodeWithSelector(ITrainingLedger.RevealsUsedUp.selector, round, 1));
        _reveal(0, round);
        _reveal(1, round);
    }

    // --- who ---

    function test_OnlyWhoCommitted_VouchesAffirmsAndReveals() public {
        uint64 round = _toVouch(3);
        address[3] memory others = [members[3].account, COORDINATOR, STRANGER];
        bytes32 blockHash = _sketchHashOf(round);
        for (uint256 i = 0; i < 3; ++i) {
            _refuse(_notCommitted(round, others[i]));
            _vouchAs(others[i], round, blockHash);
        }
        _vouch(0, round);
        _vouch(1, round);
        _vouch(2, round);
        vm.roll(ledger.round(round).vouchEnd + 1);
        for (uint256 i = 0; i < 3; ++i) {
            _refuse(_notCommitted(round, others[i]));
            _affirmAs(others[i], round, blockHash);
            _refuse(_notCommitted(round, others[i]));
            _revealAs(others[i], round, blockHash);
        }
    }

    /// @dev In the round before all four committed.
    function test_WhoCommittedInTheRoundBefore_DoesNotCountInThis() public {
        uint64 before = _toRecover(2);
        _close(COORDINATOR, before);
        uint64 round = _toVouch(3);
        _refuse(_notCommitted(round, members[3].account));
        _vouch(3, round);
        _vouch(0, round); // who vouched then may vouch again
    }

    function test_EachVouchesAndAffirmsOnce() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        _refuse(abi.encodeWithSelector(ITrainingLedger.AlreadyVouched.selector, round, 1));
        _vouch(0, round);
        vm.roll(ledger.round(round).vouchEnd + 1);
        _affirm(0, round);
        _refuse(abi.encodeWithSelector(ITrainingLedger.AlreadyAffirmed.selector, round, 1));
        _affirm(0, round);
    }

    // --- early ends ---

    function test_ThePhases_EndWithTheLastWhoCommitted() public {
        uint64 round = _toVouch(3);
        _vouch(2, round);
        _vouch(0, round);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.VouchEnded(round);
        _vouch(1, round);
        _equal(ledger.round(round).vouchEnd, vm.getBlockNumber(), "end of the vouchers");
        _equal(ledger.round(round).vouched, 3, "vouched");
        vm.roll(vm.getBlockNumber() + 1);
        _affirm(0, round);
        _affirm(1, round);
        _inPhase(round, Phase.Affirm);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.AffirmEnded(round);
        _affirm(2, round);
        RoundView memory view_ = ledger.round(round);
        _equal(view_.affirmEnd, vm.getBlockNumber(), "end of the affirmations");
        _equal(view_.affirmed, 3, "affirmed");
        _equal(view_.recoverEnd, vm.getBlockNumber() + _settings().recoverWindow, "end of the recovery");
        vm.roll(vm.getBlockNumber() + 1);
        _inPhase(round, Phase.Recover);
    }

    // --- the sketch ---

    function test_TheFirstVoucher_MustNameTheHashOfTheSketchsBlock() public {
        uint64 round = _toVouch(4);
        _refuse(_wrongHash(round, _sketchHashOf(round)));
        _vouchAs(members[0].account, round, OTHER_BRANCH);
        _equal(ledger.round(round).sketchHash, 0, "nothing is on record");
        _vouch(0, round);
    }

    /// @dev As after a reorganisation above the block of the sketch: nobody is bound to what it said of another sketch.
    function test_EveryRecordOfAnotherBranch_Reverts() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        bytes memory refusal = _wrongHash(round, _sketchHashOf(round));
        _refuse(refusal);
        _vouchAs(members[1].account, round, OTHER_BRANCH);
        vm.roll(ledger.round(round).vouchEnd + 1);
        _refuse(refusal);
        _affirmAs(members[0].account, round, OTHER_BRANCH);
        _refuse(refusal);
        _revealAs(members[0].account, round, OTHER_BRANCH);
        vm.roll(ledger.round(round).affirmEnd + 1);
        _refuse(refusal);
        _as(members[0].account);
        ledger.release(round, OTHER_BRANCH, DIGEST, 0);
        _refuse(refusal);
        _as(members[0].account);
        ledger.release(round, 0, DIGEST, 0);
    }

    /// @dev The chain forgets the hash of a block; the round does not.
    function test_TheHash_IsReadOnce() public {
        uint64 round = _toVouch(4);
        _vouch(0, round);
        vm.setBlockhash(ledger.round(round).sketchBlock, OTHER_BRANCH);
        _vouch(1, round);
    }

    function test_WhereTheHashIsLost_NobodyVouches() public {
        Settings memory s = _settings();
        s.vouchWindow = 1000;
        _redeploy(registry.membership(), s, _terms());
        _join(4);
        uint64 round = _toVouch(4);
        uint64 sketchBlock = ledger.round(round).sketchBlock;
        vm.roll(sketchBlock + 257);
        _refuse(abi.encodeWithSelector(ITrainingLedger.BlockHashUnavailable.selector, round, sketchBlock));
        _vouch(0, round);
    }

    function test_WhereNobodyVouched_RecordsNameNoSketch() public {
        uint64 round = _toAffirm(0);
        _refuse(_wrongHash(round, 0));
        _affirm(0, round);
        _affirmAs(members[0].account, round, 0);
        _revealAs(members[0].account, round, 0);
    }

    // --- without bounds ---

    function test_WithoutBounds_NobodyVouchesAffirmsOrReveals() public {
        Settings memory s = _settings();
        (s.vouchWindow, s.affirmWindow, s.stages) = (0, 0, 0);
        _redeploy(registry.membership(), s, _terms());
        _join(4);
        uint64 round = _committed(4, 4);
        _inPhase(round, Phase.Recover);
        _refuse(_wrongPhase(round, Phase.Recover, Phase.Vouch));
        _vouchAs(members[0].account, round, 0);
        _refuse(_wrongPhase(round, Phase.Recover, Phase.Affirm));
        _affirmAs(members[0].account, round, 0);
        _refuse(_wrongPhase(round, Phase.Recover, Phase.Affirm));
        _revealAs(members[0].account, round, 0);
        for (uint256 i = 0; i < 2; ++i) {
            _as(members[i].account);
            ledger.release(round, 0, DIGEST, 0);
        }
        _refuse(_notOpen(round, 1));
        _as(members[0].account);
        ledger.release(round, 0, DIGEST, 1);
        RoundView memory view_ = ledger.round(round);
        _equal(view_.affirmEnd, view_.commitEnd, "end of the affirmations");
        _equal(view_.closeEnd, view_.recoverEnd, "end of the closing");
        vm.roll(view_.recoverEnd + 1);
        _inPhase(round, Phase.Overdue);
    }
}
