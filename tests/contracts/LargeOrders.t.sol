// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
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
        (s.maxClients, s.absenceLimit) = (5_000, 1);
    }

    function setUp() public {
        vm.roll(100);
        registry = _deployRegistry(Membership.Open, address(0), _addressOfCreation(1), DELAY, _nobody());
        bytes memory arguments = abi.encode(registry, COORDINATOR, _settings(), _terms());
        seeded = SeededLedger(_create("SeededLedger.sol:SeededLedger", arguments));
        ledger = seeded;
        // The first round that is sealed pays for a slot that all later ones use again.
        (uint64 round, uint128[] memory drawn) = _drawn(2);
        (bytes memory given, bytes memory permutation) = _order(drawn, _orderSeed(round));
        _as(COORDINATOR);
        seeded.seal(round, given, permutation, "");
        _fail(round);
    }

    function test_AnOrderOf100_CostsAtMost2050GasAClient() public {
        _measure(100, 2_050);
    }

    function test_AnOrderOf1000_CostsAtMost1500GasAClient() public {
        _measure(1_000, 1_500);
    }

    function test_AnOrderOf1300_GoesInChunks() public {
        (uint64 round, uint128[] memory drawn) = _drawn(1_300);
        uint128[] memory sorted = _sorted(drawn, _orderSeed(round));
        for (uint256 i = 0; i < sorted.length; i += CHUNK) {
            require(seeded.phase(round) == Phase.Seal, "sealed too early");
            _as(COORDINATOR);
            seeded.sealChunk(round, _packed(sorted, i, i + CHUNK < sorted.length ? i + CHUNK : sorted.length), "");
        }
        require(seeded.phase(round) == Phase.Share, "not sealed");
        _equal(seeded.round(round).orderRoot, _naiveRoot(sorted), "order root");
    }

    /// @dev Seals a round of n clients in one transaction, against the goal for each client.
    function _measure(uint256 n, uint256 goal) private {
        (uint64 round, uint128[] memory drawn) = _drawn(n);
        uint16[] memory indices = _sortedIndices(drawn, _orderSeed(round));
        bytes memory given = _packed(drawn, 0, n);
        bytes memory permutation = new bytes(2 * n);
        for (uint256 i = 0; i < n; ++i) {
            (permutation[2 * i], permutation[2 * i + 1]) = (bytes1(uint8(indices[i] >> 8)), bytes1(uint8(indices[i])));
        }
        _as(COORDINATOR);
        seeded.seal(round, given, permutation, "");
        uint256 used = vm.lastCallGas().gasTotalUsed;
        uint256 floor = _floor(abi.encodeCall(seeded.seal, (round, given, permutation, "")));
        uint256 each = (used > floor ? used : floor) / n;
        vm.snapshotValue("transactions", string.concat("order of ", _decimal(n), ", for each client"), each);
        require(each <= goal, "an order costs more gas than its goal");
        _equal(seeded.round(round).orderRoot, _naiveRoot(_sorted(drawn, _orderSeed(round))), "order root");
    }

    /// @dev A round with n draws that can be sealed.
    function _drawn(uint256 n) private returns (uint64 round, uint128[] memory drawn) {
        round = _open();
        drawn = new uint128[](n);
        for (uint256 i = 0; i < n; ++i) {
            drawn[i] = _ticket(keccak256(abi.encode(i)), uint32(i + 1));
        }
        seeded.place(round, drawn);
        _toSeal(round);
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

    function _decimal(uint256 value) private pure returns (string memory text) {
        for (; value != 0; value /= 10) {
            text = string.concat(string(abi.encodePacked(uint8(48 + value % 10))), text);
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
