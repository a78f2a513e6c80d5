// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree} from "../../contracts/CooperationTree.sol";
import {ITrainingLedger, Phase, RoundView} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

contract OrdersTest is Federation {
    function setUp() public {
        _deploy(true);
        _join(4);
    }

    function test_Seal_FixesTheMerkleRootOverTheSortedTickets() public {
        uint64 round = _openAndDraw(4);
        uint16[] memory indices = _sortedIndices(tickets);
        uint128[] memory sorted = new uint128[](4);
        for (uint256 i = 0; i < 4; ++i) {
            sorted[i] = tickets[indices[i]];
        }
        vm.roll(ledger.round(round).drawEnd + 1);
        (bytes memory given, bytes memory permutation) = _order(tickets);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 4, _naiveRoot(sorted));
        vm.prank(STRANGER);
        ledger.seal(round, given, permutation);
        _equal(ledger.round(round).orderRoot, _naiveRoot(sorted), "order root");
        _inPhase(round, Phase.Share);
    }

    function test_Seal_IsAcceptedInItsWindowOnlyAndOnce() public {
        uint64 round = _openAndDraw(4);
        RoundView memory view_ = ledger.round(round);
        vm.roll(view_.drawEnd);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Draw, Phase.Seal));
        uint256 before = vm.snapshotState();
        vm.roll(view_.sealEnd + 1);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Overdue, Phase.Seal));
        vm.revertToState(before);
        vm.roll(view_.sealEnd);
        (bytes memory given, bytes memory permutation) = _order(tickets);
        ledger.seal(round, given, permutation);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.WrongPhase.selector, round, Phase.Share, Phase.Seal));
    }

    function test_Seal_BelowTheQuorum_IsRefused() public {
        uint64 round = _openAndDraw(1);
        vm.roll(ledger.round(round).drawEnd + 1);
        _refuses(round, abi.encodeWithSelector(ITrainingLedger.QuorumMissed.selector, round, 1, 2));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.QuorumMissed.selector, round, 1, 2));
        ledger.sealChunk(round, abi.encodePacked(tickets[0]));
    }

    function test_Seal_WithOtherTicketsThanThoseDrawn_IsRefused() public {
        uint64 round = _openAndDraw(4);
        vm.roll(ledger.round(round).drawEnd + 1);
        (bytes memory given, bytes memory permutation) = _order(tickets);
        bytes memory changed = abi.encodePacked(given);
        changed[3] ^= 0x01;
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongTickets.selector, round));
        ledger.seal(round, changed, permutation);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 80));
        ledger.seal(round, abi.encodePacked(given, uint128(1)), permutation);
        bytes memory swapped = abi.encodePacked(tickets[1], tickets[0], tickets[2], tickets[3]);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongTickets.selector, round));
        ledger.seal(round, swapped, permutation);
    }

    function test_Seal_WithAnotherPermutation_IsRefused() public {
        uint64 round = _openAndDraw(4);
        vm.roll(ledger.round(round).drawEnd + 1);
        (bytes memory given, bytes memory permutation) = _order(tickets);
        (permutation[1], permutation[3]) = (permutation[3], permutation[1]);
        vm.expectRevert();
        ledger.seal(round, given, permutation);
        permutation[1] = permutation[3];
        vm.expectRevert();
        ledger.seal(round, given, permutation);
    }

    function test_Chunks_GiveTheSameRootAsOneSeal() public {
        uint64 round = _openAndDraw(4);
        vm.roll(ledger.round(round).drawEnd + 1);
        uint256 before = vm.snapshotState();
        _seal(round);
        bytes32 root = ledger.round(round).orderRoot;
        vm.revertToState(before);
        uint16[] memory i = _sortedIndices(tickets);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.SealChunk(round, 3);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]], tickets[i[1]], tickets[i[2]]));
        _equal(ledger.placedSoFar(round, address(this)), 3, "placed");
        _inPhase(round, Phase.Seal);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 4, root);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[3]]));
        _equal(ledger.round(round).orderRoot, root, "order root");
    }

    function test_Chunks_RefuseTicketsThatWereNotDrawnOrDoNotAscend() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).drawEnd + 1);
        uint16[] memory i = _sortedIndices(tickets);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, tickets[0] + (1 << 32)));
        ledger.sealChunk(round, abi.encodePacked(tickets[0] + (1 << 32)));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, 4));
        ledger.sealChunk(round, abi.encodePacked(uint128(4))); // client 4 did not draw
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, 77));
        ledger.sealChunk(round, abi.encodePacked(uint128(77))); // nobody
        ledger.sealChunk(round, abi.encodePacked(tickets[i[1]]));
        vm.expectRevert(
            abi.encodeWithSelector(
                CooperationTree.TicketsNotAscending.selector, 1, tickets[i[0]], tickets[i[1]]
            )
        );
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]]));
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 0));
        ledger.sealChunk(round, "");
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.TicketBytesInvalid.selector, 17));
        ledger.sealChunk(round, new bytes(17));
    }

    function test_ASealerThatLeavesATicketOut_HindersNobodyElse() public {
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).drawEnd + 1);
        uint16[] memory i = _sortedIndices(tickets);
        vm.prank(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(tickets[i[2]]));
        ledger.sealChunk(round, abi.encodePacked(tickets[i[0]], tickets[i[1]], tickets[i[2]]));
        _inPhase(round, Phase.Share);
    }

    function test_TicketsOfAnEarlierRound_Cannot_BePlaced() public {
        uint64 first = _openAndDraw(1);
        uint128 old = tickets[0];
        vm.roll(ledger.round(first).drawEnd + 1);
        ledger.skip(first);
        uint64 round = _openAndDraw(3);
        vm.roll(ledger.round(round).drawEnd + 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.UnknownTicket.selector, round, old));
        ledger.sealChunk(round, abi.encodePacked(old));
    }

    function _refuses(uint64 round, bytes memory refusal) private {
        (bytes memory given, bytes memory permutation) = _order(tickets);
        vm.expectRevert(refusal);
        ledger.seal(round, given, permutation);
    }
}
