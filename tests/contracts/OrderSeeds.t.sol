// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BlockHeader} from "../../contracts/BlockHeader.sol";
import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, RoundView, Settings} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice The randomness that orders a round's clients: from which block it comes, and from what of it.
abstract contract OrderSeeds is Federation {
    uint64 internal round;
    uint64 internal orderBlock;

    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
        round = _openAndDraw(3);
        orderBlock = ledger.round(round).orderBlock;
    }

    /// @dev Seals by this randomness of the order's block, and sees that the contract took it from there.
    function _sealsBy(bytes32 randomness, bytes memory header) internal {
        bytes32 seed = _orderSeedOf(round, randomness);
        (bytes memory given, bytes memory permutation) = _order(tickets, seed);
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 3, seed, _naiveRoot(_sorted(tickets, seed)));
        _as(STRANGER);
        ledger.seal(round, given, permutation, header);
        _inPhase(round, Phase.Share);
    }

    function _refuses(bytes memory header, bytes memory refusal) internal {
        (bytes memory given, bytes memory permutation) = _order(tickets, 0);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.seal(round, given, permutation, header);
        vm.expectRevert(refusal);
        _as(STRANGER);
        ledger.sealChunk(round, given, header);
    }

    function _refuses(bytes memory header, bytes4 selector, uint256 number) internal {
        _refuses(header, abi.encodeWithSelector(selector, round, number));
    }
}

/// @notice Where the hash of the block is the randomness.
contract OrderSeedsByHashTest is OrderSeeds {
    function test_TheOrder_ComesFromTheBlockThatIsOrderDelayAfterTheDraws() public {
        RoundView memory view_ = ledger.round(round);
        _equal(view_.orderBlock, view_.drawEnd + _settings().orderDelay, "order block");
        _equal(view_.sealEnd, view_.orderBlock + _settings().sealWindow, "end of the seal phase");
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock - 1, keccak256("the block before"));
        vm.setBlockhash(orderBlock, keccak256("that block"));
        _sealsBy(keccak256("that block"), "");
    }

    function test_UntilItsBlockIsPast_NoOrderIsSealed() public {
        vm.roll(ledger.round(round).drawEnd + 1);
        _inPhase(round, Phase.Seal);
        _refuses("", ITrainingLedger.OrderBlockNotPast.selector, orderBlock);
        vm.roll(orderBlock);
        _refuses("", ITrainingLedger.OrderBlockNotPast.selector, orderBlock);
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _sealsBy(keccak256("hash"), "");
    }

    function test_InTheLastBlockOfItsWindow_TheOrderIsSealedByTheSameBlock() public {
        vm.roll(ledger.round(round).sealEnd);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _sealsBy(keccak256("hash"), "");
    }

    function test_AHeader_IsNotRead() public {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _sealsBy(keccak256("hash"), "no header");
    }

    // --- where hashes come from ---

    function test_BeyondTheLast256Blocks_TheHistoryContractIsAsked() public {
        Settings memory settings_ = _settings();
        settings_.sealWindow = 1_000;
        _restart(settings_);
        vm.roll(orderBlock + 300);
        _refuses("", ITrainingLedger.BlockHashUnavailable.selector, orderBlock);
        _mockHistory(abi.encode(keccak256("old block")));
        _sealsBy(keccak256("old block"), "");
    }

    function test_WhereTheHistoryContractSaysTheSame_TheHashIsTaken() public {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _mockHistory(abi.encode(keccak256("hash")));
        _sealsBy(keccak256("hash"), "");
    }

    function test_WhereTheHistoryContractSaysOtherwise_NoOrderIsSealed() public {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _mockHistory(abi.encode(keccak256("what a genesis would like")));
        _refuses("", ITrainingLedger.BlockHashDisputed.selector, orderBlock);
    }

    function test_AnAnswerOfTheHistoryContractThatIsNoHash_IsNotRead() public {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        _mockHistory(new bytes(31));
        _sealsBy(keccak256("hash"), "");
    }

    function test_AHistoryContractThatReverts_IsNotHeard() public {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        vm.mockCallRevert(HISTORY, abi.encode(uint256(orderBlock)), "out of range");
        _sealsBy(keccak256("hash"), "");
    }

    // --- chunks ---

    function test_ChunksAfterTheFirst_NeedNoHashAnyMore() public {
        Settings memory settings_ = _settings();
        settings_.sealWindow = 1_000;
        _restart(settings_);
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256("hash"));
        bytes32 seed = _orderSeedOf(round, keccak256("hash"));
        uint128[] memory sorted = _sorted(tickets, seed);
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(sorted[0]), "");
        vm.roll(orderBlock + 300);
        vm.expectRevert(
            abi.encodeWithSelector(ITrainingLedger.BlockHashUnavailable.selector, round, uint256(orderBlock))
        );
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(sorted[0]), "");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 3, seed, _naiveRoot(sorted));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(sorted[1], sorted[2]), "");
    }

    /// @dev A round of a federation with other settings.
    function _restart(Settings memory settings_) private {
        _redeploy(Membership.Open, settings_, _terms());
        _join(3);
        round = _openAndDraw(3);
        orderBlock = ledger.round(round).orderBlock;
    }

    function _mockHistory(bytes memory answer) private {
        vm.mockCall(HISTORY, abi.encode(uint256(orderBlock)), answer);
    }
}

/// @notice Where the RANDAO mix in the block's header is the randomness.
contract OrderSeedsByMixTest is OrderSeeds {
    bytes32 private constant MIX = keccak256("mix");

    function _settings() internal pure override returns (Settings memory s) {
        s = super._settings();
        s.randao = true;
    }

    function test_TheOrder_ComesFromTheMixInTheHeader() public {
        bytes memory header = _header(MIX, "extra", orderBlock, 1_700_000_000);
        _toOrderBlock(header);
        _sealsBy(MIX, header);
    }

    function test_UntilItsBlockIsPast_NoOrderIsSealed() public {
        vm.roll(orderBlock);
        _refuses(_header(MIX, "", orderBlock, 1), ITrainingLedger.OrderBlockNotPast.selector, orderBlock);
    }

    function test_TheHeaderOfAnotherBlock_IsRefused() public {
        bytes memory other = _header(MIX, "", orderBlock - 1, 1);
        _toOrderBlock(_header(keccak256("another mix"), "", orderBlock, 1));
        vm.setBlockhash(orderBlock - 1, keccak256(other));
        _refuses(other, ITrainingLedger.WrongHeader.selector, orderBlock);
    }

    function test_NoHeader_IsRefused() public {
        _toOrderBlock(_header(MIX, "", orderBlock, 1));
        _refuses("", ITrainingLedger.WrongHeader.selector, orderBlock);
    }

    function test_AHeaderWithoutAHash_IsRefused() public {
        bytes memory header = _header(MIX, "", orderBlock, 1);
        _toOrderBlock(header);
        vm.setBlockhash(orderBlock, 0);
        _refuses(header, ITrainingLedger.BlockHashUnavailable.selector, orderBlock);
    }

    function testFuzz_AChangedHeader_IsRefused(uint256 offset, uint8 flip) public {
        vm.assume(flip != 0);
        bytes memory header = _header(MIX, "extra", orderBlock, 1_700_000_000);
        _toOrderBlock(header);
        header[offset % header.length] ^= bytes1(flip);
        _refuses(header, ITrainingLedger.WrongHeader.selector, orderBlock);
    }

    /// @dev Fields of all lengths before the mix; `extra` may be longer than Ethereum allows.
    function testFuzz_TheMix_IsFoundBehindFieldsOfAnyLength(
        bytes32 mix,
        bytes memory extra,
        uint64 number,
        uint256 timestamp
    ) public {
        bytes memory header = _header(mix, extra, number, timestamp);
        _toOrderBlock(header);
        _sealsBy(mix, header);
    }

    function test_TheMix_IsFoundBehindExtraDataOfEachFormOfLength() public {
        uint16[7] memory lengths = [0, 1, 2, 55, 56, 255, 256];
        for (uint256 i = 0; i < 7; ++i) {
            bytes memory header = _header(MIX, new bytes(lengths[i]), orderBlock, 1_700_000_000);
            uint256 before = vm.snapshotState();
            _toOrderBlock(header);
            _sealsBy(MIX, header);
            vm.revertToState(before);
        }
    }

    /// @dev That a block's header hashes to its hash is what the contract relies on; a chain may still have other
    /// headers than Ethereum's.
    function testFuzz_AHeaderThatEndsBeforeTheMix_IsRefused(uint256 length) public {
        bytes memory header = _header(MIX, "extra", orderBlock, 1_700_000_000);
        length %= header.length - 10; // the nonce and the base fee follow the mix
        assembly ("memory-safe") {
            mstore(header, length)
        }
        _toOrderBlock(header);
        _refuses(header, abi.encodeWithSelector(BlockHeader.HeaderTooShort.selector, length));
    }

    function test_AHeaderWithTheMixElsewhere_IsRefused() public {
        bytes memory nonce = abi.encodePacked(uint8(0x88), uint64(7));
        // The nonce lies where the mix should be, as in headers that have one field fewer before it.
        bytes memory header = _framed(abi.encodePacked(_fieldsBeforeTheMix("", orderBlock, 1), nonce, uint8(0xa0), MIX));
        _toOrderBlock(header);
        _refuses(header, abi.encodeWithSelector(BlockHeader.MixMissing.selector, header.length - 42));
    }

    function testFuzz_AnyBytesThatHashToTheBlocksHash_GiveAnOrderOrADeclaredError(bytes calldata header) public {
        _toOrderBlock(header);
        (bytes memory given, bytes memory permutation) = _order(tickets, 0);
        _as(STRANGER);
        try ledger.seal(round, given, permutation, header) {} catch (bytes memory reason) {
            require(reason.length >= 4, "refused without a reason");
        }
    }

    function test_ChunksAfterTheFirst_NeedNoHeader() public {
        bytes memory header = _header(MIX, "", orderBlock, 1);
        _toOrderBlock(header);
        bytes32 seed = _orderSeedOf(round, MIX);
        uint128[] memory sorted = _sorted(tickets, seed);
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(sorted[0]), header);
        vm.expectRevert(abi.encodeWithSelector(ITrainingLedger.WrongHeader.selector, round, uint256(orderBlock)));
        _as(COORDINATOR);
        ledger.sealChunk(round, abi.encodePacked(sorted[0]), "");
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.Sealed(round, 3, seed, _naiveRoot(sorted));
        _as(STRANGER);
        ledger.sealChunk(round, abi.encodePacked(sorted[1], sorted[2]), "");
    }

    function _toOrderBlock(bytes memory header) private {
        vm.roll(orderBlock + 1);
        vm.setBlockhash(orderBlock, keccak256(header));
    }

    /// @dev A block header (RLP) with the fields up to the base fee.
    function _header(bytes32 mix, bytes memory extra, uint64 number, uint256 timestamp)
        private
        pure
        returns (bytes memory)
    {
        bytes memory end = abi.encodePacked(uint8(0xa0), mix, uint8(0x88), uint64(0), uint8(7));
        return _framed(abi.encodePacked(_fieldsBeforeTheMix(extra, number, timestamp), end));
    }

    function _framed(bytes memory fields) private pure returns (bytes memory) {
        return abi.encodePacked(uint8(0xf9), uint16(fields.length), fields);
    }

    function _fieldsBeforeTheMix(bytes memory extra, uint64 number, uint256 timestamp)
        private
        pure
        returns (bytes memory)
    {
        bytes memory head = abi.encodePacked(_word("parent"), _word("ommers"), uint8(0x94), COORDINATOR);
        bytes memory roots = abi.encodePacked(_word("state"), _word("transactions"), _word("receipts"));
        bytes memory bloom = abi.encodePacked(hex"b90100", new bytes(256));
        bytes memory numbers =
            abi.encodePacked(_number(0), _number(number), _number(30_000_000), _number(0), _number(timestamp));
        return abi.encodePacked(head, roots, bloom, numbers, _string(extra));
    }

    function _word(string memory name) private pure returns (bytes memory) {
        return abi.encodePacked(uint8(0xa0), keccak256(bytes(name)));
    }

    /// @dev RLP of a number: big-endian, without leading zeros.
    function _number(uint256 value) private pure returns (bytes memory) {
        bytes memory digits;
        for (; value != 0; value >>= 8) {
            digits = abi.encodePacked(uint8(value), digits);
        }
        return _string(digits);
    }

    function _string(bytes memory content) private pure returns (bytes memory) {
        if (content.length == 1 && uint8(content[0]) < 0x80) return content;
        if (content.length < 56) return abi.encodePacked(uint8(0x80 + content.length), content);
        if (content.length < 256) return abi.encodePacked(uint8(0xb8), uint8(content.length), content);
        return abi.encodePacked(uint8(0xb9), uint16(content.length), content);
    }
}
