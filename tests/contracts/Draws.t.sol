// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {Prover} from "./harness/Prover.sol";
import {vm} from "./harness/Vm.sol";

contract DrawsTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
    }

    // --- seed ---

    function test_TheSeed_IsFixedFromTheSeedBlockAndTheLastOrder() public {
        uint64 first = _closed(3, 3);
        uint64 round = _open();
        _toDraw(round);
        bytes32 hash = keccak256(abi.encode("block", round));
        bytes32 seed = keccak256(abi.encode(hash, ledger.round(first).orderRoot));
        bytes32 alpha = keccak256(abi.encode("draw", block.chainid, address(ledger), round, seed));
        _equal(ledger.alphaOf(round), alpha, "alpha before the seed is fixed");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.SeedFixed(round, hash, seed);
        _as(STRANGER);
        ledger.fixSeed(round);
        _equal(ledger.round(round).seed, seed, "seed");
        _equal(ledger.alphaOf(round), alpha, "alpha");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SeedFixedAlready.selector, round));
        _as(STRANGER);
        ledger.fixSeed(round);
    }

    function test_AFailedRound_LeavesTheLastSealedOrderInTheSeed() public {
        uint64 sealedRound = _sealed(3);
        _fail(sealedRound);
        _skip(_openAndDraw(1));
        uint64 round = _open();
        _toDraw(round);
        _as(STRANGER);
        ledger.fixSeed(round);
        bytes32 hash = keccak256(abi.encode("block", round));
        _equal(
            ledger.round(round).seed, keccak256(abi.encode(hash, ledger.round(sealedRound).orderRoot)), "seed"
        );
    }

    function test_TheSeed_Cannot_BeFixedOutsideTheDrawWindow() public {
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        uint64 round = _open();
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.seedBlock);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Seeding, Phase.Draw));
        _as(STRANGER);
        ledger.fixSeed(round);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.SeedBlockNotPast.selector, round, uint256(view_.seedBlock))
        );
        ledger.alphaOf(round);
        vm.roll(view_.drawEnd + 1);
        vm.expectRevert(_wrongPhase(round, Phase.Seal, Phase.Draw));
        _as(STRANGER);
        ledger.fixSeed(round);
        vm.expectRevert(_wrongPhase(9, Phase.None, Phase.Draw));
        _as(STRANGER);
        ledger.fixSeed(9);
    }

    function test_BeyondTheLast256Blocks_TheHistoryContractIsAsked() public {
        uint64 round = _open();
        uint64 seedBlock = ledger.round(round).seedBlock;
        vm.roll(seedBlock + 300);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.BlockHashUnavailable.selector, round, uint256(seedBlock))
        );
        ledger.alphaOf(round);
        bytes32 hash = keccak256("old block");
        vm.mockCall(HISTORY, abi.encode(uint256(seedBlock)), abi.encode(hash));
        _equal(ledger.alphaOf(round), _alphaOf(round, hash), "alpha");
    }

    /// @dev The genesis of a private chain may have put a contract there that says what its author likes.
    function test_TheHistoryContract_Cannot_ChooseTheSeed() public {
        uint64 round = _open();
        _toDraw(round);
        uint64 seedBlock = ledger.round(round).seedBlock;
        bytes32 hash = keccak256(abi.encode("block", round));
        vm.mockCall(HISTORY, abi.encode(uint256(seedBlock)), abi.encode(hash));
        _equal(ledger.alphaOf(round), _alphaOf(round, hash), "alpha where both say the same");
        vm.mockCall(HISTORY, abi.encode(uint256(seedBlock)), abi.encode(keccak256("another")));
        bytes memory refusal =
            abi.encodeWithSelector(ITrainingLedger.BlockHashDisputed.selector, round, uint256(seedBlock));
        vm.expectRevert(refusal);
        ledger.alphaOf(round);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.fixSeed(round);
        _refuses(0, round, refusal);
    }

    // --- acceptance ---

    function test_ADraw_IsRecordedWithTheProofAndFixesTheSeed() public {
        uint64 round = _open();
        _toDraw(round);
        Member memory member = members[1];
        (bytes memory message, bytes32 beta) = _proof(member, round);
        (uint128 ticket, bytes memory proof) =
            ledger.checkDraw(round, member.account, member.vrfX, member.vrfY, 10, message);
        _equal(ticket, _ticket(beta, 2), "ticket");
        _equal(proof.length, 81, "proof length");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.SeedFixed(
            round,
            keccak256(abi.encode("block", round)),
            keccak256(abi.encode(keccak256(abi.encode("block", round)), bytes32(0)))
        );
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Drawn(round, 2, 10, MASK_KEY, SEAL_KEY, proof);
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
        _equal(ledger.round(round).drawn, 1, "drawn");
    }

    function test_ADraw_IsAcceptedInItsWindowOnly() public {
        uint64 round = _open();
        vm.roll(ledger.round(round).seedBlock);
        _refuses(0, round, _wrongPhase(round, Phase.Seeding, Phase.Draw));
        _toDraw(round);
        _draw(0, round);
        vm.roll(_windowEnd(round));
        _draw(1, round);
        _equal(ledger.round(round).drawEnd, vm.getBlockNumber(), "draw end");
        vm.roll(_windowEnd(round) + 1);
        _refuses(2, round, _wrongPhase(round, Phase.Seal, Phase.Draw));
        _refuses(2, 9, _wrongPhase(9, Phase.None, Phase.Draw));
    }

    function test_ASecondDraw_IsRefused() public {
        uint64 round = _openAndDraw(1);
        _refuses(0, round, abi.encodeWithSelector(ITrainingLedger.AlreadyDrawn.selector, round, 1));
    }

    function test_AnAccountThatIsNotRegistered_Cannot_Draw() public {
        members.push(_newMember(99));
        uint64 round = _open();
        _toDraw(round);
        _refuses(3, round, abi.encodeWithSelector(ITrainingLedger.AccountNotRegistered.selector, members[3].account));
    }

    function test_AClientRegisteredTooLate_Cannot_Draw() public {
        Member memory late = _newMember(99);
        members.push(late);
        _register(late);
        uint64 round = _open(); // in the block of the registration
        uint256 openedAt = ledger.round(round).openedAt;
        _toDraw(round);
        _refuses(
            3,
            round,
            abi.encodeWithSelector(ITrainingLedger.NotYetActive.selector, late.account, openedAt + DELAY, openedAt)
        );
    }

    function test_AClientThatRotatedItsKey_Cannot_DrawInTheRunningRound() public {
        uint64 round = _open();
        uint256 openedAt = ledger.round(round).openedAt;
        Member memory member = members[0];
        Member memory fresh = _newMember(77);
        (bytes memory message,) = Prover.prove(fresh.secret, _registerAlpha(address(registry), member.account));
        _as(member.account);
        registry.rotateVrfKey(fresh.vrfX, fresh.vrfY, message);
        _toDraw(round);
        _refuses(
            0,
            round,
            abi.encodeWithSelector(ITrainingLedger.NotYetActive.selector, member.account, openedAt + DELAY, openedAt)
        );
    }

    function test_AKeyThatIsNotTheRegisteredOne_IsRefused() public {
        uint64 round = _open();
        _toDraw(round);
        Member memory member = members[0];
        Member memory other = members[1];
        (bytes memory message,) = _proof(other, round);
        uint160 tag = registry.clientOf(member.account).keyTag;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.KeyMismatch.selector, member.account, tag));
        _as(member.account);
        ledger.draw(round, other.vrfX, other.vrfY, MASK_KEY, SEAL_KEY, 10, message);
        // The mirrored point has the same x.
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.KeyMismatch.selector, member.account, tag));
        _as(member.account);
        ledger.draw(round, member.vrfX, Prover.P - member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }

    function test_SampleCountsOutOfRange_AreRefused() public {
        uint64 round = _open();
        _toDraw(round);
        uint32[3] memory counts = [0, 1001, type(uint32).max];
        for (uint256 i = 0; i < 3; ++i) {
            Member memory member = members[0];
            vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.SamplesOutOfRange.selector, counts[i], 1000));
            _as(member.account);
            ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, counts[i], "");
        }
    }

    function test_AFullRound_TakesNoMoreDraws() public {
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        _join(5);
        uint64 round = _openAndDraw(4);
        _refuses(4, round, abi.encodeWithSelector(ITrainingLedger.RoundFull.selector, round, 4));
    }

    function testFuzz_TheLot_FallsOnThoseBelowTheThreshold(uint32 rate) public {
        rate = 1 + rate % (EVERYONE - 1);
        _redeploy(Membership.Open, _settings(), _termsAt(rate));
        _join(1);
        uint64 round = _open();
        _toDraw(round);
        uint256 threshold = (type(uint256).max / 1_000_000) * rate;
        Member memory member = members[0];
        (bytes memory message, bytes32 beta) = _proof(member, round);
        if (uint256(beta) >= threshold) {
            vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.NotSelected.selector, uint256(beta), threshold));
        }
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
        _equal(ledger.round(round).drawn, uint256(beta) < threshold ? 1 : 0, "drawn");
    }

    // --- replays ---

    function test_AProofOfAnotherRoundChainOrLedger_IsRefused() public {
        uint64 first = _openAndDraw(1);
        Member memory member = members[1];
        (bytes memory ofFirst,) = _proof(member, first);
        _skip(first);
        uint64 round = _open();
        _toDraw(round);
        _as(STRANGER);
        ledger.fixSeed(round);
        _refusesMessage(round, ofFirst);

        bytes32 seed = ledger.round(round).seed;
        bytes32 elsewhere = keccak256(abi.encode("draw", block.chainid, address(0xBEEF), round, seed));
        (bytes memory ofLedger,) = Prover.prove(member.secret, elsewhere);
        _refusesMessage(round, ofLedger);

        (bytes memory message,) = _proof(member, round);
        uint256 before = vm.snapshotState();
        vm.chainId(block.chainid + 1);
        _refusesMessage(round, message);
        vm.revertToState(before);
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }

    function testFuzz_AChangedMessage_IsRefusedOrGivesTheSameTicket(uint256 offset, uint8 flip) public {
        uint64 round = _open();
        _toDraw(round);
        Member memory member = members[0];
        (bytes memory message, bytes32 beta) = _proof(member, round);
        message[offset % message.length] ^= bytes1(flip);
        try ledger.checkDraw(round, member.account, member.vrfX, member.vrfY, 10, message) returns (
            uint128 ticket, bytes memory
        ) {
            _equal(ticket, _ticket(beta, 1), "ticket");
        } catch (bytes memory reason) {
            require(reason.length >= 4, "refused without a reason");
        }
    }

    /// @dev The VRF input of the first round.
    function _alphaOf(uint64 round, bytes32 blockHash) private view returns (bytes32) {
        bytes32 seed = keccak256(abi.encode(blockHash, bytes32(0)));
        return keccak256(abi.encode("draw", block.chainid, address(ledger), round, seed));
    }

    function _refuses(uint256 i, uint64 round, bytes memory refusal) private {
        Member memory member = members[i];
        vm.expectRevert(refusal);
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, "");
    }

    function _refusesMessage(uint64 round, bytes memory message) private {
        Member memory member = members[1];
        vm.expectRevert(); // the candidates of try-and-increment differ, so which check refuses depends on the hash
        _as(member.account);
        ledger.draw(round, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 10, message);
    }
}
