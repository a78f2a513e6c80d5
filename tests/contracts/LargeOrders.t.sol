// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {SeededLedger} from "./harness/SeededLedger.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Orders of a thousand clients and more: their roots, and the gas goal of an order.
contract LargeOrdersTest is Federation {
    uint256 private constant CHUNK = 400;

    SeededLedger private seeded;

    function _settings() internal pure override returns (Settings memory s) {
        s = super._settings();
        s.maxClients = 5_000;
    }

    function setUp() public {
        vm.roll(100);
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 1);
        registry = _deployRegistry(true, ADMIN, next, DELAY);
        bytes memory arguments = abi.encode(registry, COORDINATOR, _settings());
        seeded = SeededLedger(_create("SeededLedger.sol:SeededLedger", arguments));
    }

    function test_AnOrderOf1000_CostsAtMost1500GasAClient() public {
        (uint64 round, uint128[] memory drawn, uint128[] memory sorted, bytes memory permutation) = _drawn(1_000);
        bytes memory given = _packed(drawn, 0, drawn.length);
        seeded.seal(round, given, permutation);
        uint256 used = vm.lastCallGas().gasTotalUsed;
        uint256 floor = _floor(abi.encodeCall(seeded.seal, (round, given, permutation)));
        uint256 each = (used > floor ? used : floor) / drawn.length;
        vm.snapshotValue("transactions", "order of 1000, for each client", each);
        require(each <= 1_500, "an order costs more gas than its goal");
        _equal(seeded.round(round).orderRoot, _naiveRoot(sorted), "order root");
    }

    function test_AnOrderOf1300_GoesInChunks() public {
        (uint64 round,, uint128[] memory sorted,) = _drawn(1_300);
        for (uint256 i = 0; i < sorted.length; i += CHUNK) {
            require(seeded.phase(round) == Phase.Seal, "sealed too early");
            seeded.sealChunk(round, _packed(sorted, i, i + CHUNK < sorted.length ? i + CHUNK : sorted.length));
        }
        require(seeded.phase(round) == Phase.Share, "not sealed");
        _equal(seeded.round(round).orderRoot, _naiveRoot(sorted), "order root");
    }

    /// @dev A round with n draws, in an order far from ascending.
    function _drawn(uint256 n)
        private
        returns (uint64 round, uint128[] memory drawn, uint128[] memory sorted, bytes memory permutation)
    {
        vm.prank(COORDINATOR);
        round = seeded.open(MODEL, CONFIG, EVERYONE);
        drawn = new uint128[](n);
        sorted = new uint128[](n);
        permutation = new bytes(2 * n);
        for (uint256 i = 0; i < n; ++i) {
            uint256 rank = (i * 617) % n; // 617 divides neither n
            uint256 noise = uint80(uint256(keccak256(abi.encode(i))));
            drawn[i] = uint128((((rank + 1) * 41) << 112) | (noise << 32) | (i + 1));
            sorted[rank] = drawn[i];
            permutation[2 * rank] = bytes1(uint8(i >> 8));
            permutation[2 * rank + 1] = bytes1(uint8(i));
        }
        seeded.place(round, drawn);
        vm.roll(seeded.round(round).drawEnd + 1);
    }

    function _packed(uint128[] memory list, uint256 from, uint256 to) private pure returns (bytes memory packed) {
        packed = new bytes(16 * (to - from));
        for (uint256 i = from; i < to; ++i) {
            uint256 word = uint256(list[i]) << 128;
            uint256 offset = 32 + 16 * (i - from);
            assembly ("memory-safe") {
                // Overwrites the next ticket's place, which is written after; the last word may touch the padding only.
                let place := add(packed, offset)
                mstore(place, or(word, and(mload(place), 0xffffffffffffffffffffffffffffffff)))
            }
        }
    }

    /// @dev What EIP-7623 charges at least for a transaction with this calldata.
    function _floor(bytes memory data) private pure returns (uint256) {
        uint256 tokens = 0;
        for (uint256 i = 0; i < data.length; ++i) {
            tokens += data[i] == 0 ? 1 : 4;
        }
        return 21_000 + 10 * tokens;
    }
}
