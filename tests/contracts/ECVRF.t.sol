// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ECVRF} from "../../contracts/ECVRF.sol";
import {ECVRFHarness} from "./harness/ECVRFHarness.sol";

/// @dev The cheatcodes of Foundry that these tests use.
interface Vm {
    function readFile(string calldata path) external view returns (string memory);
    function parseJsonUintArray(string calldata json, string calldata key) external pure returns (uint256[] memory);
    function parseJsonBytesArray(string calldata json, string calldata key) external pure returns (bytes[] memory);
    function parseJsonBytes32Array(string calldata json, string calldata key) external pure returns (bytes32[] memory);
    function expectRevert(bytes calldata data) external;
    function mockCall(address target, bytes calldata data, bytes calldata answer) external;
}

/// @notice The VRF library against published vectors, the Python prover, forgeries and mutated messages.
/// Vectors come from scripts/make_vrf_vectors.py.
contract ECVRFTest {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    uint256 private constant P = ECVRF.P;
    uint256 private constant GAS_GOAL = 16_000;
    /// @dev Rows of the random vectors whose H came at counters 0 and 1.
    uint256 private constant AT_COUNTER_0 = 0;
    uint256 private constant AT_COUNTER_1 = 2;

    struct Columns {
        uint256[] x;
        uint256[] y;
        bytes[] alpha;
        bytes[] message;
    }

    struct Row {
        uint256 x;
        uint256 y;
        bytes32 alpha;
        bytes message;
        bytes32 beta;
    }

    ECVRFHarness private harness;
    Columns private random;
    bytes32[] private randomBeta;

    function setUp() public {
        harness = new ECVRFHarness();
        (Columns memory columns, string memory json) = _read("ecvrf_random");
        random.x = columns.x;
        random.y = columns.y;
        random.alpha = columns.alpha;
        random.message = columns.message;
        randomBeta = VM.parseJsonBytes32Array(json, ".beta");
    }

    // ---------------------------------------------------------------- what is accepted

    function test_EveryPublishedVector_IsVerified() public view {
        (Columns memory rows, string memory json) = _read("ecvrf_published");
        _checkAll(rows, json, 26);
    }

    function test_RandomProofs_GiveTheOutputsOfThePythonProver() public view {
        (Columns memory rows, string memory json) = _read("ecvrf_random");
        _checkAll(rows, json, 256);
    }

    function test_NegatedRoots_AreAcceptedWithTheSameOutput() public view {
        Row memory row = _row(AT_COUNTER_1);
        for (uint256 offset = 257; offset < row.message.length; offset += 32) {
            _setWord(row.message, offset, P - _word(row.message, offset));
        }
        (bytes32 beta,) = harness.verify(row.x, row.y, row.alpha, row.message);
        require(beta == row.beta, "the output changed");
    }

    function test_VerifyingAtCounter0_CostsAtMostTheGoal() public view {
        _checkGas(AT_COUNTER_0, 289);
    }

    function test_VerifyingAtCounter1_CostsAtMostTheGoal() public view {
        _checkGas(AT_COUNTER_1, 321);
    }

    // ---------------------------------------------------------------- what is refused

    function test_EverySingleBitFlip_IsRefused() public view {
        Row memory row = _row(AT_COUNTER_1);
        for (uint256 bit; bit < row.message.length * 8; ++bit) {
            row.message[bit / 8] ^= bytes1(uint8(1 << (bit % 8)));
            require(!_accepts(row), "a flipped bit was accepted");
            row.message[bit / 8] ^= bytes1(uint8(1 << (bit % 8)));
        }
        require(_accepts(row), "the restored message was refused");
    }

    /// forge-config: default.fuzz.runs = 2000
    function testFuzz_AChangedMessage_IsRefusedOrGivesTheSameOutput(uint256 pick, uint256 offset, bytes32 word)
        public
        view
    {
        Row memory row = _row(pick % randomBeta.length);
        offset %= row.message.length - 31;
        _setWord(row.message, offset, uint256(word));
        try harness.verify(row.x, row.y, row.alpha, row.message) returns (bytes32 beta, uint128) {
            require(beta == row.beta, "a second output was accepted");
        } catch {}
    }

    function testFuzz_AnotherInputOrKey_IsRefused(uint256 pick, uint256 other, bytes32 alpha) public view {
        Row memory row = _row(pick % randomBeta.length);
        Row memory stranger = _row(other % randomBeta.length);
        bytes32 genuine = row.alpha;
        row.alpha = alpha;
        require(alpha == genuine || !_accepts(row), "another input was accepted");
        (row.alpha, stranger.alpha, stranger.message) = (genuine, genuine, row.message);
        require(stranger.x == row.x || !_accepts(stranger), "another key was accepted");
    }

    function testFuzz_AnArbitraryMessage_IsRefused(bytes calldata message) public view {
        Row memory row = _row(AT_COUNTER_0);
        row.message = message;
        require(keccak256(message) == keccak256(_row(AT_COUNTER_0).message) || !_accepts(row), "accepted");
    }

    function test_ForgeriesOfAProverThatKnowsItsKey_AreRefused() public view {
        (Columns memory rows,) = _read("ecvrf_forged");
        require(rows.x.length == 16, "vectors are missing");
        for (uint256 i; i < rows.x.length; ++i) {
            Row memory row = Row(rows.x[i], rows.y[i], bytes32(rows.alpha[i]), rows.message[i], 0);
            require(!_accepts(row), "a forgery was accepted");
        }
    }

    function test_AForgeryThatLiesAboutB_IsRefusedAtB() public view {
        _refusesForgery(1, ECVRF.PointBInvalid.selector);
    }

    function test_AForgeryThatLiesAboutA_IsRefusedAtA() public view {
        _refusesForgery(3, ECVRF.PointAInvalid.selector);
    }

    function test_AnotherPointU_IsRefused() public view {
        Row memory row = _row(AT_COUNTER_0);
        _setWord(row.message, 64, _word(row.message, 64) ^ 1);
        _refusedAt(row, ECVRF.PointUInvalid.selector);
    }

    /// @dev One hash of 2^224 is that large, so SHA-256 is replaced.
    function test_ACandidateThatIsNoCoordinate_IsRefused() public {
        Row memory row = _row(AT_COUNTER_0);
        bytes memory input = abi.encodePacked(bytes2(0xFE01), uint8(2 + (row.y & 1)), row.x, row.alpha, bytes2(0));
        VM.mockCall(address(2), input, abi.encode(P - 1));
        _expect(row, abi.encodeWithSelector(ECVRF.RootInvalid.selector, 0, _word(row.message, 257)));
        VM.mockCall(address(2), input, abi.encode(P));
        _expect(row, abi.encodeWithSelector(ECVRF.CandidateOutOfRange.selector, 0, P));
    }

    function test_EveryOtherLength_IsRefused() public {
        Row memory row = _row(AT_COUNTER_1);
        uint256[6] memory lengths = [uint256(0), 256, 257, 320, 322, 257 + 32 * 257];
        for (uint256 i; i < lengths.length; ++i) {
            bytes memory message = new bytes(lengths[i]);
            for (uint256 j; j < message.length && j < row.message.length; ++j) {
                message[j] = row.message[j];
            }
            VM.expectRevert(abi.encodeWithSelector(ECVRF.MessageLengthInvalid.selector, lengths[i]));
            harness.verify(row.x, row.y, row.alpha, message);
        }
    }

    function test_AnUnknownPrefixOfGamma_IsRefused() public {
        Row memory row = _row(AT_COUNTER_0);
        row.message[256] = 0x04;
        _expect(row, abi.encodeWithSelector(ECVRF.GammaPrefixInvalid.selector, uint8(4)));
    }

    function test_AZeroResponse_IsRefused() public {
        _refusedWord(32, 0, ECVRF.ResponseOutOfRange.selector);
    }

    function test_AResponseOfTheGroupOrder_IsRefused() public {
        _refusedWord(32, ECVRF.N, ECVRF.ResponseOutOfRange.selector);
    }

    function test_SkippingAGoodCounter_IsRefused() public {
        Row memory row = _row(AT_COUNTER_0);
        uint256 root = _word(row.message, 257);
        row.message = abi.encodePacked(row.message, root);
        _expect(row, abi.encodeWithSelector(ECVRF.RootInvalid.selector, 0, root));
    }

    function test_AsManyRootsAsThereAreCounters_AreLookedAt() public {
        Row memory row = _row(AT_COUNTER_0);
        uint256 root = _word(row.message, 257);
        row.message = abi.encodePacked(row.message, new bytes(32 * 255));
        _expect(row, abi.encodeWithSelector(ECVRF.RootInvalid.selector, 0, root));
    }

    function test_StoppingAtABadCounter_IsRefused() public {
        Row memory row = _row(AT_COUNTER_1);
        uint256 root = _word(row.message, 257);
        bytes memory message = row.message;
        assembly {
            mstore(message, 289)
        }
        _expect(row, abi.encodeWithSelector(ECVRF.RootInvalid.selector, 0, root));
    }

    function test_EqualXOfAAndB_IsRefused() public {
        Row memory row = _row(AT_COUNTER_0);
        uint256 ax = _word(row.message, 128);
        _setWord(row.message, 224, ax);
        _expect(row, abi.encodeWithSelector(ECVRF.SlopeUndetermined.selector, ax));
    }

    function test_GammaOffTheCurve_IsRefused() public view {
        Row memory row = _row(AT_COUNTER_0);
        _setWord(row.message, 0, 5); // 5³ + 7 is no square
        require(!_accepts(row), "accepted");
    }

    function test_OnlyCanonicalPointsOfTheCurve_AreOnTheCurve() public view {
        Row memory row = _row(AT_COUNTER_0);
        require(harness.isOnCurve(row.x, row.y) && harness.isOnCurve(row.x, P - row.y), "a key is off the curve");
        require(!harness.isOnCurve(row.x, row.y ^ 1) && !harness.isOnCurve(row.y, row.x), "off the curve");
        require(!harness.isOnCurve(0, 0) && !harness.isOnCurve(5, 1), "off the curve");
        // x = 1 has a point, y² = 8; the same coordinates plus p are no encoding of it.
        uint256 root8 = 0x4218F20AE6C646B363DB68605822FB14264CA8D2587FDD6FBC750D587E76A7EE;
        require(harness.isOnCurve(1, root8) && !harness.isOnCurve(1 + P, root8), "not canonical");
    }

    // ---------------------------------------------------------------- helpers

    function _checkAll(Columns memory rows, string memory json, uint256 count) private view {
        bytes[] memory proofs = VM.parseJsonBytesArray(json, ".proof");
        bytes32[] memory betas = VM.parseJsonBytes32Array(json, ".beta");
        require(rows.x.length == count && betas.length == count, "vectors are missing");
        for (uint256 i; i < count; ++i) {
            (bytes32 beta, uint128 challenge) =
                harness.verifyBytes(rows.x[i], rows.y[i], rows.alpha[i], rows.message[i]);
            require(beta == betas[i], "another output than the vector's");
            bytes memory proof = harness.proofOf(rows.message[i], challenge);
            require(keccak256(proof) == keccak256(proofs[i]), "another proof than the vector's");
        }
    }

    function _checkGas(uint256 index, uint256 length) private view {
        Row memory row = _row(index);
        require(row.message.length == length, "the row has another counter");
        (uint256 gasUsed, bytes32 beta) = harness.measure(row.x, row.y, row.alpha, row.message);
        require(beta == row.beta && gasUsed <= GAS_GOAL, "too expensive");
    }

    function _refusedWord(uint256 offset, uint256 value, bytes4 selector) private {
        Row memory row = _row(AT_COUNTER_0);
        _setWord(row.message, offset, value);
        _expect(row, abi.encodeWithSelector(selector, value));
    }

    function _refusesForgery(uint256 i, bytes4 selector) private view {
        (Columns memory rows,) = _read("ecvrf_forged");
        _refusedAt(Row(rows.x[i], rows.y[i], bytes32(rows.alpha[i]), rows.message[i], 0), selector);
    }

    function _refusedAt(Row memory row, bytes4 selector) private view {
        try harness.verify(row.x, row.y, row.alpha, row.message) {
            revert("a forgery was accepted");
        } catch (bytes memory reason) {
            require(bytes4(reason) == selector, "refused elsewhere");
        }
    }

    function _expect(Row memory row, bytes memory reason) private {
        VM.expectRevert(reason);
        harness.verify(row.x, row.y, row.alpha, row.message);
    }

    function _accepts(Row memory row) private view returns (bool) {
        try harness.verify(row.x, row.y, row.alpha, row.message) returns (bytes32, uint128) {
            return true;
        } catch {
            return false;
        }
    }

    function _row(uint256 i) private view returns (Row memory) {
        return Row(random.x[i], random.y[i], bytes32(random.alpha[i]), random.message[i], randomBeta[i]);
    }

    function _read(string memory name) private view returns (Columns memory columns, string memory json) {
        json = VM.readFile(string.concat("tests/contracts/vectors/", name, ".json"));
        columns.x = VM.parseJsonUintArray(json, ".x");
        columns.y = VM.parseJsonUintArray(json, ".y");
        columns.alpha = VM.parseJsonBytesArray(json, ".alpha");
        columns.message = VM.parseJsonBytesArray(json, ".message");
    }

    function _word(bytes memory message, uint256 offset) private pure returns (uint256 word) {
        assembly {
            word := mload(add(add(message, 32), offset))
        }
    }

    function _setWord(bytes memory message, uint256 offset, uint256 word) private pure {
        assembly {
            mstore(add(add(message, 32), offset), word)
        }
    }
}
