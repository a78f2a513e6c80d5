// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree, Frontier} from "../../contracts/CooperationTree.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice The library behind calls, so that reverts can be expected and calldata be given.
contract TreeHarness {
    function sortedRoot(bytes calldata tickets, bytes calldata permutation, bytes32 orderSeed)
        external
        pure
        returns (bytes32)
    {
        return CooperationTree.sortedRoot(tickets, permutation, orderSeed);
    }

    function chainOf(bytes calldata tickets) external pure returns (uint160) {
        return CooperationTree.chainOf(tickets);
    }

    function appended(uint128[] calldata tickets, bytes32 orderSeed) external pure returns (bytes32) {
        Frontier memory frontier;
        for (uint256 i = 0; i < tickets.length; ++i) {
            CooperationTree.append(frontier, tickets[i], orderSeed);
        }
        return CooperationTree.root(frontier);
    }

    function partners(uint32 position, uint32 n) external pure returns (uint32[] memory) {
        return CooperationTree.partners(position, n);
    }
}

/// @notice Vectors are Python's (scripts/make_tree_vectors.py); what no vector reaches is compared with naive code.
contract CooperationTreeTest is Federation {
    bytes32 private constant SEED = keccak256("order seed");

    TreeHarness private tree;
    string private vectors;

    function setUp() public {
        tree = new TreeHarness();
        vectors = vm.readFile("tests/contracts/vectors/tree.json");
    }

    function test_Partners_AreThoseOfPythonForEverySmallTree() public view {
        bytes32[] memory digests = vm.parseJsonBytes32Array(vectors, ".small.digest");
        for (uint32 n = 1; n <= digests.length; ++n) {
            uint32[][] memory lists = new uint32[][](n);
            for (uint32 position = 0; position < n; ++position) {
                lists[position] = CooperationTree.partners(position, n);
            }
            _equal(keccak256(abi.encode(lists)), digests[n - 1], "partners");
        }
    }

    function test_Partners_AreThoseOfPythonForRandomLargeTrees() public view {
        uint256[] memory sizes = vm.parseJsonUintArray(vectors, ".large.n");
        uint256[] memory positions = vm.parseJsonUintArray(vectors, ".large.position");
        bytes32[] memory digests = vm.parseJsonBytes32Array(vectors, ".large.digest");
        for (uint256 i = 0; i < sizes.length; ++i) {
            uint32[] memory list = tree.partners(uint32(positions[i]), uint32(sizes[i]));
            _equal(keccak256(abi.encode(list)), digests[i], "partners");
        }
    }

    function test_OrderRoot_IsThatOfPython() public view {
        bytes[] memory tickets_ = vm.parseJsonBytesArray(vectors, ".orders.tickets");
        bytes32[] memory seeds = vm.parseJsonBytes32Array(vectors, ".orders.seed");
        bytes[] memory permutations = vm.parseJsonBytesArray(vectors, ".orders.permutation");
        bytes32[] memory roots = vm.parseJsonBytes32Array(vectors, ".orders.root");
        for (uint256 i = 0; i < roots.length; ++i) {
            _equal(tree.sortedRoot(tickets_[i], permutations[i], seeds[i]), roots[i], "order root");
        }
    }

    function testFuzz_Partners_AreSymmetricAscendingAndNeverOneself(uint32 n, uint32 position) public view {
        n = 2 + n % 10_000;
        position %= n;
        uint32[] memory list = tree.partners(position, n);
        require(list.length != 0, "a client has no partner");
        for (uint256 i = 0; i < list.length; ++i) {
            require(list[i] != position && list[i] < n, "no partner");
            require(i == 0 || list[i] > list[i - 1], "not ascending");
            require(_contains(tree.partners(list[i], n), position), "not symmetric");
        }
    }

    function testFuzz_OrderRoot_IsTheNaiveMerkleRoot(uint128[] memory drawn, bytes32 orderSeed) public view {
        vm.assume(drawn.length > 0 && drawn.length <= 200);
        for (uint256 i = 0; i < drawn.length; ++i) {
            drawn[i] = (drawn[i] >> 32 << 32) | uint128(i + 1); // no two equal, as client indices see to
        }
        (bytes memory packed, bytes memory permutation) = _order(drawn, orderSeed);
        uint128[] memory sorted = _sorted(drawn, orderSeed);
        _equal(tree.sortedRoot(packed, permutation, orderSeed), _naiveRoot(sorted), "order root");
        _equal(tree.appended(sorted, orderSeed), _naiveRoot(sorted), "appended root");
    }

    function testFuzz_AKey_IsTheHashOfOrderSeedAndTicket(bytes32 orderSeed, uint128 ticket) public pure {
        _equal(CooperationTree.keyOf(ticket, orderSeed), keccak256(abi.encodePacked(orderSeed, ticket)), "key");
    }

    function testFuzz_Chain_DependsOnTheOrderOfTheDraws(uint128 a, uint128 b) public view {
        vm.assume(a != b);
        uint160 ab = tree.chainOf(abi.encodePacked(a, b));
        require(ab != tree.chainOf(abi.encodePacked(b, a)), "two orders have one chain");
        _equal(ab, CooperationTree.chain(CooperationTree.chain(0, a), b), "chain");
        bytes20 first = bytes20(keccak256(abi.encodePacked(bytes20(0), a)));
        _equal(ab, uint160(bytes20(keccak256(abi.encodePacked(first, b)))), "packed chain");
    }

    function test_OrderRoot_OfARepeatedTicket_IsRefused() public {
        _refuses(hex"00000000", abi.encodeWithSelector(CooperationTree.TicketsNotAscending.selector, 1, 5));
    }

    function test_OrderRoot_OfDescendingKeys_IsRefused() public {
        // Of two permutations one ascends, which is not always that of the ascending tickets.
        (bytes memory packed, bytes memory permutation) = _pair();
        uint128 first = permutation[1] == 0 ? 5 : 7;
        tree.sortedRoot(packed, permutation, SEED);
        (permutation[1], permutation[3]) = (permutation[3], permutation[1]);
        _refuses(permutation, abi.encodeWithSelector(CooperationTree.TicketsNotAscending.selector, 1, first));
    }

    function test_OrderRoot_WithAnIndexBeyondTheTickets_IsRefused() public {
        _refuses(hex"00000002", abi.encodeWithSelector(CooperationTree.PermutationIndexOutOfRange.selector, 1, 2));
    }

    function test_OrderRoot_WithAShortPermutation_IsRefused() public {
        _refuses(hex"0000", abi.encodeWithSelector(CooperationTree.LengthMismatch.selector, 2, 4));
    }

    function test_Partners_OfAPositionBeyondTheTree_AreRefused() public {
        vm.expectRevert(abi.encodeWithSelector(CooperationTree.PositionOutOfRange.selector, 3, 3));
        tree.partners(3, 3);
    }

    function _refuses(bytes memory permutation, bytes memory refusal) private {
        (bytes memory packed,) = _pair();
        vm.expectRevert(refusal);
        tree.sortedRoot(packed, permutation, SEED);
    }

    function _pair() private pure returns (bytes memory packed, bytes memory permutation) {
        uint128[] memory pair = new uint128[](2);
        (pair[0], pair[1]) = (5, 7);
        return _order(pair, SEED);
    }

    function _contains(uint32[] memory list, uint32 value) private pure returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == value) return true;
        }
        return false;
    }
}
