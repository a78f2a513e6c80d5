// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECVRF} from "../../contracts/ECVRF.sol";
import {Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, SignedDraw} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

contract DrawBatchTest is Federation {
    uint256 private constant N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;

    uint64 private round;

    function setUp() public {
        _deploy(Membership.Open);
        _join(3);
        round = _open();
        _toDraw(round);
    }

    function test_ABatchOfSignedDraws_DrawsThemAll() public {
        SignedDraw[] memory items = new SignedDraw[](3);
        for (uint256 i = 0; i < 3; ++i) {
            items[i] = _signedDraw(i, round);
        }
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 3, "drawn");
    }

    function test_ABatch_GivesTheSameOrderAsSingleDraws() public {
        uint256 before = vm.snapshotState();
        _draw(0, round);
        _draw(1, round);
        _seal(round);
        bytes32 root = ledger.round(round).orderRoot;
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(round));
        vm.revertToState(before);
        SignedDraw[] memory items = new SignedDraw[](2);
        items[0] = _signedDraw(0, round);
        items[1] = _signedDraw(1, round);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _toSeal(round);
        _as(STRANGER);
        ledger.seal(round, given, permutation, "");
        _equal(ledger.round(round).orderRoot, root, "order root");
    }

    function test_BadItems_AreSkippedWithTheirReasons() public {
        SignedDraw[] memory items = new SignedDraw[](5);
        items[0] = _signedDraw(0, round);
        items[1] = _signedDraw(0, round); // twice
        items[2] = _signedDraw(1, round);
        items[2].samples = 11; // not what was signed
        items[3] = _resigned(1, "short");
        items[4] = _signedDraw(2, round);
        _expectRejection(members[0].account, ITrainingLedger.AlreadyDrawn.selector);
        _expectRejection(members[1].account, ITrainingLedger.BadSignature.selector);
        _expectRejection(members[1].account, ECVRF.MessageLengthInvalid.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 2, "drawn");
    }

    function test_MalformedSignatures_AreSkipped() public {
        SignedDraw[] memory items = new SignedDraw[](6);
        for (uint256 i = 0; i < items.length; ++i) {
            items[i] = _signedDraw(0, round);
        }
        bytes memory good = items[0].signature;
        items[0].signature = "";
        items[1].signature = abi.encodePacked(good, uint8(0));
        items[2].signature = _mirrored(good);
        items[3].signature = new bytes(65);
        items[4].signature = _signature(members[1].signingKey, _drawDigest(address(ledger), round, items[4]));
        items[5].account = address(0); // what a failed ecrecover returns
        items[5].signature = new bytes(65);
        for (uint256 i = 0; i < items.length; ++i) {
            _expectRejection(items[i].account, ITrainingLedger.BadSignature.selector);
        }
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 0, "drawn");
    }

    function test_ASignatureForAnotherRoundLedgerOrChain_IsSkipped() public {
        SignedDraw[] memory items = new SignedDraw[](2);
        items[0] = _signedDraw(0, round);
        items[0].signature = _signature(members[0].signingKey, _drawDigest(address(ledger), round + 1, items[0]));
        items[1] = _signedDraw(1, round);
        items[1].signature = _signature(members[1].signingKey, _drawDigest(address(registry), round, items[1]));
        _expectRejection(members[0].account, ITrainingLedger.BadSignature.selector);
        _expectRejection(members[1].account, ITrainingLedger.BadSignature.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        items = new SignedDraw[](1);
        items[0] = _signedDraw(2, round);
        vm.chainId(block.chainid + 1);
        _expectRejection(members[2].account, ITrainingLedger.BadSignature.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
    }

    function test_AnItemBeyondTheLastDraw_IsSkipped() public {
        _joinQuietly();
        SignedDraw[] memory items = new SignedDraw[](5);
        for (uint256 i = 0; i < 5; ++i) {
            items[i] = _signedDraw(i, round);
        }
        _expectRejection(members[4].account, ITrainingLedger.WrongPhase.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 4, "drawn");
    }

    function test_ACheckThatEndsWithoutAReason_IsARejection() public {
        SignedDraw[] memory items = new SignedDraw[](1);
        items[0] = _signedDraw(0, round);
        vm.mockCallRevert(address(ledger), abi.encodeWithSelector(ledger.checkDraw.selector), ""); // as without gas
        _expectRejection(members[0].account, ITrainingLedger.DrawNotChecked.selector);
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 0, "drawn");
    }

    function test_ABatchOutsideTheDrawWindow_IsRefused() public {
        _draw(0, round);
        _draw(1, round);
        vm.roll(ledger.round(round).drawEnd + 1);
        vm.expectRevert(_wrongPhase(round, Phase.Seal, Phase.Draw));
        _as(STRANGER);
        ledger.drawBatch(round, new SignedDraw[](0));
    }

    function testFuzz_AnyBatch_IsAcceptedWithoutReverting(bytes calldata message, bytes calldata signature) public {
        SignedDraw[] memory items = new SignedDraw[](2);
        items[0] = _resigned(0, message);
        items[1] = _signedDraw(1, round);
        items[1].signature = signature;
        _as(STRANGER);
        ledger.drawBatch(round, items);
        _equal(ledger.round(round).drawn, 0, "drawn");
    }

    /// @dev A well signed draw with another message.
    function _resigned(uint256 i, bytes memory message) private returns (SignedDraw memory item) {
        item = _signedDraw(i, round);
        item.message = message;
        item.signature = _signature(members[i].signingKey, _drawDigest(address(ledger), round, item));
    }

    /// @dev The other signature with the same meaning: s → N − s, v flipped.
    function _mirrored(bytes memory signature) private pure returns (bytes memory) {
        bytes32 r;
        uint256 s;
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
        }
        return abi.encodePacked(r, N - s, uint8(signature[64]) == 27 ? uint8(28) : uint8(27));
    }

    function _expectRejection(address account, bytes4 reason) private {
        vm.expectEmit(address(ledger));
        emit ITrainingLedger.DrawRejected(round, account, reason);
    }

    /// @dev Two more members in a new round, since members of the running one come too late.
    function _joinQuietly() private {
        _skip(round);
        _join(2);
        round = _open();
        _toDraw(round);
    }
}
