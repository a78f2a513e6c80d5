// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree} from "../../contracts/CooperationTree.sol";
import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

contract OrdersTest is Federation {
    function setUp() public {
        _deploy(Membership.Open);
        _join(4);
    }

    function test_Seal_FixesTheMerkleRootOverTheSortedTickets() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        bytes32 seed = _orderSeed(round);
        (bytes memory given, bytes memory permutation) = _order(tickets, seed);
        bytes32 root = _naiveRoot(_sorted(tickets, seed));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 4, seed, root);
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
        _equal(ledger.round(round).orderRoot, root, "order root");
        _inPhase(round, Phase.Share);
    }

    function test_Seal_IsAcceptedInItsWindowOnlyAndOnce() public {
        uint64 round = _openAndDraw(4);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.orderBlock);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.OrderBlockNotPast.selector, round, view_.orderBlock));
        uint256 before = vm.snapshotState();
        vm.roll(view_.sealEnd + 1);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Overdue, Phase.Seal));
        vm.revertToState(before);
        vm.roll(view_.sealEnd);
        vm.setBlockhash(view_.orderBlock, _orderHash(round));
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Share, Phase.Seal));
    }

    /// @dev A round of all members below its quorum still draws.
    function test_Seal_BelowTheQuorum_IsRefused() public {
        uint64 waiting = _openAndDraw(1);
        vm.roll(_windowEnd(waiting) + 3);
        vm.expectRevert(_wrongPhase(waiting, Phase.Draw, Phase.Seal));
        _as(STRANGER);
        ledger.seal(waiting, abi.encodePacked(tickets[0]), hex"0000", "");
        _redeploy(Membership.Open, _settings(), _termsAt(EVERYONE - 1));
        _join(4);
        uint64 round = _openAndDraw(1);
        _toSeal(round);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.QuorumMissed.selector, round, 1, 2));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumMissed.selector, round, 1, 2));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[0]), "");
    }

    function test_Seal_WithOtherTicketsThanThoseDrawn_IsRefused() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        bytes memory changed = abi.encodePacked(given);
        changed[3] ^= 0x01;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongTickets.selector, round));
        _as(STRANGER);
        ledger.seal(round, changed, permutation, "");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 80));
        _as(STRANGER);
        ledger.seal(round, abi.encodePacked(given, uint128(1)), permutation, "");
        bytes memory swapped = abi.encodePacked(tickets[1], tickets[0], tickets[2], tickets[3]);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongTickets.selector, round));
        _as(STRANGER);
        ledger.seal(round, swapped, permutation, "");
    }

    function test_Seal_WithAnotherPermutation_IsRefused() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        (permutation[1], permutation[3]) = (permutation[3], permutation[1]);
        vm.expectRevert();
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
        permutation[1] = permutation[3];
        vm.expectRevert();
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
    }

    function test_Chunks_GiveTheSameRootAsOneSeal() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        uint256 before = vm.snapshotState();
        _seal(round);
        bytes32 root = ledger.round(round).orderRoot;
        vm.revertToState(before);
        uint16[] memory i = _sortedIndices(tickets, _orderSeed(round));
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.SealChunk(round, 3);
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]], tickets[i[1]], tickets[i[2]]), "");
        _equal(ledger.placedSoFar(round, STRANGER), 3, "placed");
        _inPhase(round, Phase.Seal);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 4, _orderSeed(round), root);
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[3]]), "");
        _equal(ledger.round(round).orderRoot, root, "order root");
    }

    function test_Chunks_RefuseTicketsThatWereNotDrawnOrDoNotAscend() public {
        uint64 round = _openAndDraw(3);
        _toSeal(round);
        uint16[] memory i = _sortedIndices(tickets, _orderSeed(round));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, tickets[0] + (1 << 32)));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[0] + (1 << 32)), "");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, 4));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(uint128(4)), ""); // client 4 did not draw
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, 77));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(uint128(77)), ""); // nobody
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[1]]), "");
        vm.expectRevert(
            abi.encodeWithSelector(CooperationTree.TicketsNotAscending.selector, 1, tickets[i[0]])
        );
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]]), "");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 0));
        _as(STRANGER);
        ledger.sealChunk(round, "", "");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 17));
        _as(STRANGER);
        ledger.sealChunk(round, new bytes(17), "");
    }

    function test_ASealerThatLeavesATicketOut_HindersNobodyElse() public {
        uint64 round = _openAndDraw(3);
        _toSeal(round);
        uint16[] memory i = _sortedIndices(tickets, _orderSeed(round));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[2]]), "");
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]], tickets[i[1]], tickets[i[2]]), "");
        _inPhase(round, Phase.Share);
    }

    function test_SendersOfChunks_CountForThemselvesAlone() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        uint16[] memory i = _sortedIndices(tickets, _orderSeed(round));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]], tickets[i[1]]), "");
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]]), "");
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[1]], tickets[i[2]]), "");
        _equal(ledger.placedSoFar(round, STRANGER), 2, "placed by one");
        _equal(ledger.placedSoFar(round, COORDINATOR), 3, "placed by the other");
        _inPhase(round, Phase.Seal); // five places, but nobody has placed four
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 4, _orderSeed(round), _naiveRoot(_sorted(tickets, _orderSeed(round))));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[2]], tickets[i[3]]), "");
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Share, Phase.Seal)
        );
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[3]]), "");
    }

    function test_TheOrderOfAnotherSeed_IsRefused() public {
        uint64 round = _openAndDraw(4);
        _toSeal(round);
        (bytes memory given, bytes memory permutation) = _order(tickets, _another(round));
        vm.expectPartialRevert(CooperationTree.TicketsNotAscending.selector);
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
    }

    function test_TicketsOfAnEarlierRound_Cannot_BePlaced() public {
        uint64 first = _openAndDraw(1);
        uint128 old = tickets[0];
        _skip(first);
        uint64 round = _openAndDraw(3);
        _toSeal(round);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, old));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(old), "");
    }

    /// @dev A seed that orders the tickets otherwise.
    function _another(uint64 round) private view returns (bytes32 seed) {
        bytes32 root = _naiveRoot(_sorted(tickets, _orderSeed(round)));
        do {
            seed = keccak256(abi.encode(seed));
        } while (_naiveRoot(_sorted(tickets, seed)) == root);
    }

    function _refuses(uint64 round, bytes memory refusal) private {
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
    }
}
