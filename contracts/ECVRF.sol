// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// @title ECVRF: on-chain verification of ECVRF-SECP256K1-SHA256-TAI proofs
/// @notice The verifiable random function of RFC 9381 on secp256k1 (suite string 0xFE, which the RFC leaves
/// unassigned), byte for byte in the RFC's frame: section 5.3 (verify), 5.4.1.1 (try-and-increment), 5.4.3 (challenge,
/// Y included), 5.2 (beta). The cofactor is 1.
///
/// Curve arithmetic is expensive in the EVM, so the prover sends the results as hints and this library checks them:
/// square roots by squaring, sums by their slope, multiples of points by `ecrecover`, which computes
/// r⁻¹(s·R − z·G) and returns the address of the result.
///
/// Message: eight words, one byte, and one word per counter tried; nothing may follow.
///
/// | offset       | field    | meaning                                                                    |
/// | ------------ | -------- | -------------------------------------------------------------------------- |
/// | 0            | Γx       | x-coordinate of Γ = xH                                                     |
/// | 32           | s        | response k + c·x mod n                                                     |
/// | 64, 96       | Ux, Uy   | U = sG − cY                                                                |
/// | 128, 160     | Ax, Ay   | A = sH                                                                     |
/// | 192          | λ        | slope of the line through A and −B, where B = cΓ                           |
/// | 224          | Bx       | x-coordinate of B                                                          |
/// | 256          | prefix   | 0x02 when Γy is even, 0x03 when it is odd (SEC 1)                          |
/// | 257 + 32·i   | wᵢ       | i < ctr: square root of −(hᵢ³ + 7); i = ctr: square root of hᵢ³ + 7          |
///
/// NOTE: the message is malleable (−wᵢ for wᵢ, λ + p for a small λ), so it is never an identifier. No such change alters
/// Γ, s, the challenge or beta; the 81-byte proof of the RFC is unique to them and is rebuilt by {proofOf}.
///
/// NOTE: points U, A and B are bound to their hints by `ecrecover`'s 160-bit addresses. A false hint needs a second
/// preimage of truncated Keccak-256. Genuine points have coordinates below p, so the same comparison refuses
/// non-canonical coordinates.
///
/// NOTE: `ecrecover` takes x-coordinates below the group order n only. A key, H or Γ whose x lies in [n, p) (one in
/// 2¹²⁸) is refused, although the RFC would accept it. So are a zero challenge and sH = ±cΓ, equally unlikely.
///
/// WARNING: {verify} does NOT check that the public key is a point of the curve (only the parity of y enters), nor who
/// owns it. Check {isOnCurve} and a proof of possession once, at registration, and pass registered keys only.
library ECVRF {
    /// @dev Order of the field, ≡ 3 mod 4: −1 is no square, so exactly one of t and −t (t ≠ 0) is one.
    uint256 internal constant P = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F;
    /// @dev Order of the group.
    uint256 internal constant N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;

    /// @dev Bytes of a message before its first root.
    uint256 private constant HEAD = 257;
    /// @dev The counter is one byte in the hash.
    uint256 private constant MAX_ROOTS = 256;

    /// @notice The message is not 257 bytes followed by 1 to 256 words.
    error MessageLengthInvalid(uint256 length);
    /// @notice Γ's prefix is neither 0x02 nor 0x03.
    error GammaPrefixInvalid(uint8 prefix);
    /// @notice The response s is zero or not below the group order.
    error ResponseOutOfRange(uint256 response);
    /// @notice The hash of counter `counter` is not a field element (one in 2²²⁴).
    error CandidateOutOfRange(uint256 counter, uint256 candidate);
    /// @notice `root` does not show that counter `counter` yields no point, or, for the last counter, a point.
    error RootInvalid(uint256 counter, uint256 root);
    /// @notice A and B share their x-coordinate, so that any slope would pass.
    error SlopeUndetermined(uint256 x);
    /// @notice The hint for U is not sG − cY, whose address is `actual` (zero: `ecrecover` refused).
    error PointUInvalid(address actual);
    /// @notice The hint for A is not sH, whose address is `actual` (zero: `ecrecover` refused).
    error PointAInvalid(address actual);
    /// @notice The hint for B is not cΓ, whose address is `actual` (zero: `ecrecover` refused, Γ may be off the curve).
    error PointBInvalid(address actual);

    /// @notice Verifies a proof over a 32-byte input, and returns its output.
    /// @param publicKeyX x-coordinate of the registered key.
    /// @param publicKeyY y-coordinate of the registered key.
    /// @param alpha The input.
    /// @param message Proof and hints, in the layout above.
    /// @return beta The output, SHA-256(0xFE ‖ 0x03 ‖ Γ ‖ 0x00).
    /// @return challenge The challenge c, which {proofOf} needs.
    function verify(uint256 publicKeyX, uint256 publicKeyY, bytes32 alpha, bytes calldata message)
        internal
        view
        returns (bytes32 beta, uint128 challenge)
    {
        return verify(publicKeyX, publicKeyY, abi.encodePacked(alpha), message);
    }

    /// @notice As above, over an input of any length.
    function verify(uint256 publicKeyX, uint256 publicKeyY, bytes memory alpha, bytes calldata message)
        internal
        view
        returns (bytes32 beta, uint128 challenge)
    {
        _checkHead(message);
        uint256 hx = _hashToCurve(publicKeyX, publicKeyY, alpha, message);
        (uint256 vx, uint256 vy, uint256 by) = _sum(message);
        challenge = _challenge(publicKeyX, publicKeyY, hx, vx, vy, message);
        _checkU(publicKeyX, publicKeyY, challenge, message);
        _checkA(hx, message);
        _checkB(challenge, by, message);
        beta = _beta(message);
    }

    /// @notice The 81-byte proof of RFC 9381, Γ ‖ c ‖ s, of a message that {verify} accepted with this challenge.
    function proofOf(bytes calldata message, uint128 challenge) internal pure returns (bytes memory) {
        return abi.encodePacked(message[256], message[0:32], challenge, message[32:64]);
    }

    /// @notice Whether (x, y) is a point of secp256k1 with canonical coordinates. There is no point at infinity here.
    function isOnCurve(uint256 x, uint256 y) internal pure returns (bool) {
        return x < P && y < P && mulmod(y, y, P) == _rightHandSide(x);
    }

    /// @dev Checks the length, Γ's prefix and the range of s. Γx needs no check of its own: see {_checkB}.
    function _checkHead(bytes calldata message) private pure {
        uint256 length = message.length;
        if (length < HEAD + 32 || length > HEAD + 32 * MAX_ROOTS || length % 32 != HEAD % 32) {
            revert MessageLengthInvalid(length);
        }
        uint8 prefix = uint8(message[256]);
        if (prefix != 2 && prefix != 3) revert GammaPrefixInvalid(prefix);
        uint256 s = _word(message, 32);
        if (s == 0 || s >= N) revert ResponseOutOfRange(s);
    }

    /// @dev Try-and-increment. The first counter that yields a point is forced: each root before it proves that its
    /// candidate is on no point. A prover that could choose the counter would choose among up to 256 outputs.
    /// The sign of the last root does not matter: H is the point with even y, and only its x-coordinate is used.
    function _hashToCurve(uint256 publicKeyX, uint256 publicKeyY, bytes memory alpha, bytes calldata message)
        private
        view
        returns (uint256 hx)
    {
        bytes memory input =
            abi.encodePacked(bytes2(0xFE01), uint8(2 + (publicKeyY & 1)), publicKeyX, alpha, bytes2(0));
        uint256 last = (message.length - HEAD) / 32 - 1;
        for (uint256 counter;; ++counter) {
            assembly ("memory-safe") {
                mstore8(add(input, add(mload(input), 30)), counter) // the last byte but one
            }
            hx = uint256(_sha256(input));
            if (hx >= P) revert CandidateOutOfRange(counter, hx);
            uint256 root = _word(message, HEAD + 32 * counter);
            uint256 square = mulmod(root, root, P);
            uint256 t = _rightHandSide(hx);
            // t ≠ 0, since no point has order 2, so −t is P − t and has a root only if t has none.
            if (square != (counter == last ? t : P - t)) revert RootInvalid(counter, root);
            if (counter == last) return hx;
        }
    }

    /// @dev V = A − B by the slope, and By. λ is forced by Ax ≠ Bx once {_checkA} and {_checkB} have passed.
    /// Hints of p or more give garbage here, which those two checks then refuse.
    function _sum(bytes calldata message) private pure returns (uint256 vx, uint256 vy, uint256 by) {
        uint256 ax = _word(message, 128);
        uint256 ay = _word(message, 160);
        uint256 slope = _word(message, 192);
        uint256 bx = _word(message, 224);
        if (ax == bx) revert SlopeUndetermined(ax);
        assembly ("memory-safe") {
            // −B lies on the line: −By = Ay + λ(Bx − Ax)
            by := sub(P, addmod(ay, mulmod(slope, addmod(bx, sub(P, ax), P), P), P))
            // Vx = λ² − Ax − Bx, Vy = λ(Ax − Vx) − Ay
            vx := addmod(addmod(mulmod(slope, slope, P), sub(P, ax), P), sub(P, bx), P)
            vy := addmod(mulmod(slope, addmod(ax, sub(P, vx), P), P), sub(P, ay), P)
        }
    }

    /// @dev c = first 16 bytes of SHA-256(0xFE ‖ 0x02 ‖ Y ‖ H ‖ Γ ‖ U ‖ V ‖ 0x00), points compressed.
    function _challenge(
        uint256 publicKeyX,
        uint256 publicKeyY,
        uint256 hx,
        uint256 vx,
        uint256 vy,
        bytes calldata message
    ) private view returns (uint128 c) {
        assembly ("memory-safe") {
            let buffer := mload(0x40)
            mstore8(buffer, 0xFE)
            mstore8(add(buffer, 1), 0x02)
            mstore8(add(buffer, 2), add(2, and(publicKeyY, 1)))
            mstore(add(buffer, 3), publicKeyX)
            mstore8(add(buffer, 35), 2)
            mstore(add(buffer, 36), hx)
            calldatacopy(add(buffer, 68), add(message.offset, 256), 1)
            calldatacopy(add(buffer, 69), message.offset, 32)
            mstore8(add(buffer, 101), add(2, and(calldataload(add(message.offset, 96)), 1)))
            calldatacopy(add(buffer, 102), add(message.offset, 64), 32)
            mstore8(add(buffer, 134), add(2, and(vy, 1)))
            mstore(add(buffer, 135), vx)
            mstore8(add(buffer, 167), 0)
            if iszero(staticcall(gas(), 2, buffer, 168, 0, 32)) { revert(0, 0) }
            c := shr(128, mload(0))
        }
    }

    /// @dev U = Yx⁻¹(−c·Yx·Y + s·Yx·G) = sG − cY.
    function _checkU(uint256 publicKeyX, uint256 publicKeyY, uint256 c, bytes calldata message) private view {
        uint256 z = N - mulmod(_word(message, 32), publicKeyX, N);
        uint256 factor = N - mulmod(c, publicKeyX, N);
        address actual = _recover(z, publicKeyY & 1, publicKeyX, factor);
        if (!_isAddressOf(actual, _word(message, 64), _word(message, 96))) revert PointUInvalid(actual);
    }

    /// @dev A = hx⁻¹(s·hx·H) = sH, H with even y.
    function _checkA(uint256 hx, bytes calldata message) private view {
        address actual = _recover(0, 0, hx, mulmod(_word(message, 32), hx, N));
        if (!_isAddressOf(actual, _word(message, 128), _word(message, 160))) revert PointAInvalid(actual);
    }

    /// @dev B = Γx⁻¹(c·Γx·Γ) = cΓ. Succeeds only if Γx is below n and the x-coordinate of a point, so Γ is validated here.
    function _checkB(uint256 c, uint256 by, bytes calldata message) private view {
        uint256 gammaX = _word(message, 0);
        address actual = _recover(0, uint8(message[256]) & 1, gammaX, mulmod(c, gammaX, N));
        if (!_isAddressOf(actual, _word(message, 224), by)) revert PointBInvalid(actual);
    }

    /// @dev SHA-256(0xFE ‖ 0x03 ‖ Γ ‖ 0x00), Γ compressed.
    function _beta(bytes calldata message) private view returns (bytes32 beta) {
        assembly ("memory-safe") {
            mstore8(0, 0xFE)
            mstore8(1, 0x03)
            calldatacopy(2, add(message.offset, 256), 1)
            calldatacopy(3, message.offset, 32)
            mstore8(35, 0)
            if iszero(staticcall(gas(), 2, 0, 36, 0, 32)) { revert(0, 0) }
            beta := mload(0)
        }
    }

    /// @dev The address of r⁻¹(s·R − z·G), R the point with x-coordinate r and y ≡ parity mod 2; zero when r is no
    /// x-coordinate below n of a point, s is not in [1, n), or the result is infinity.
    function _recover(uint256 z, uint256 parity, uint256 r, uint256 s) private view returns (address actual) {
        assembly ("memory-safe") {
            let buffer := mload(0x40)
            mstore(buffer, z)
            mstore(add(buffer, 32), add(27, parity))
            mstore(add(buffer, 64), r)
            mstore(add(buffer, 96), s)
            mstore(0, 0) // a failed ecrecover returns nothing and leaves the output word as it was
            pop(staticcall(gas(), 1, buffer, 128, 0, 32))
            actual := mload(0)
        }
    }

    /// @dev Whether `actual` is the non-zero address of the point (x, y).
    function _isAddressOf(address actual, uint256 x, uint256 y) private pure returns (bool equal) {
        assembly ("memory-safe") {
            mstore(0, x)
            mstore(32, y)
            equal := and(iszero(iszero(actual)), iszero(shl(96, xor(actual, keccak256(0, 64)))))
        }
    }

    function _sha256(bytes memory input) private view returns (bytes32 digest) {
        assembly ("memory-safe") {
            if iszero(staticcall(gas(), 2, add(input, 32), mload(input), 0, 32)) { revert(0, 0) }
            digest := mload(0)
        }
    }

    /// @dev x³ + 7 mod p.
    function _rightHandSide(uint256 x) private pure returns (uint256) {
        return addmod(mulmod(mulmod(x, x, P), x, P), 7, P);
    }

    /// @dev The word at `offset`. {_checkHead} has checked that the message reaches that far.
    function _word(bytes calldata message, uint256 offset) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := calldataload(add(message.offset, offset))
        }
    }
}
