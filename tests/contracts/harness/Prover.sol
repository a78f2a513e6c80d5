// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {vm, Vm} from "./Vm.sol";

/// @notice Makes ECVRF proofs with their hints inside a test, so that tests may choose keys, chains, contracts and rounds freely.
/// Written from RFC 9381 apart from the contracts and from chain/crypto/vrf.py; slow, and careless with secrets.
library Prover {
    uint256 internal constant P = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F;
    uint256 internal constant N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;

    struct Point {
        uint256 x;
        uint256 y;
    }

    function publicKey(uint256 secret) internal returns (uint256 x, uint256 y) {
        Vm.Wallet memory wallet = vm.createWallet(secret);
        return (wallet.publicKeyX, wallet.publicKeyY);
    }

    /// @return message proof and hints, as ECVRF.sol lays them out
    /// @return beta the VRF's output
    function prove(uint256 secret, bytes32 alpha) internal returns (bytes memory message, bytes32 beta) {
        Point memory key;
        (key.x, key.y) = publicKey(secret);
        bytes memory roots;
        Point memory h;
        (h, roots) = _hashToCurve(key, alpha);
        Point memory gamma = mul(secret, h);
        uint256 nonce = uint256(keccak256(abi.encode(secret, alpha))) % N;
        Point memory u;
        (u.x, u.y) = publicKey(nonce);
        uint256 c = _challenge(key, h, gamma, u, mul(nonce, h));
        uint256 s = addmod(nonce, mulmod(c, secret, N), N);
        message = abi.encodePacked(gamma.x, s, u.x, u.y, _hints(mul(s, h), mul(c, gamma)), _prefix(gamma), roots);
        beta = sha256(abi.encodePacked(hex"fe03", _compressed(gamma), hex"00"));
    }

    /// @dev A, the slope of the line through A and −B, and Bx.
    function _hints(Point memory a, Point memory b) private view returns (bytes memory) {
        uint256 rise = addmod(a.y, b.y, P);
        uint256 slope = mulmod(rise, _power(addmod(a.x, P - b.x, P), P - 2), P);
        return abi.encodePacked(a.x, a.y, slope, b.x);
    }

    function _hashToCurve(Point memory key, bytes32 alpha) private view returns (Point memory h, bytes memory roots) {
        for (uint256 counter = 0;; ++counter) {
            h.x = uint256(sha256(abi.encodePacked(hex"fe01", _compressed(key), alpha, uint8(counter), hex"00")));
            uint256 t = addmod(mulmod(mulmod(h.x, h.x, P), h.x, P), 7, P);
            uint256 root = _power(t, (P + 1) / 4);
            if (mulmod(root, root, P) == t) {
                h.y = root & 1 == 0 ? root : P - root;
                return (h, abi.encodePacked(roots, root));
            }
            roots = abi.encodePacked(roots, _power(P - t, (P + 1) / 4));
        }
    }

    function _challenge(Point memory key, Point memory h, Point memory gamma, Point memory u, Point memory v)
        private
        pure
        returns (uint256)
    {
        bytes memory points = abi.encodePacked(
            _compressed(key), _compressed(h), _compressed(gamma), _compressed(u), _compressed(v)
        );
        return uint256(sha256(abi.encodePacked(hex"fe02", points, hex"00"))) >> 128;
    }

    /// @dev Scalar times point, in Jacobian coordinates.
    function mul(uint256 scalar, Point memory point) internal view returns (Point memory) {
        uint256 x = 0;
        uint256 y = 1;
        uint256 z = 0;
        for (uint256 bit = 256; bit > 0; --bit) {
            (x, y, z) = _double(x, y, z);
            if ((scalar >> (bit - 1)) & 1 == 1) (x, y, z) = _add(x, y, z, point.x, point.y);
        }
        uint256 inverse = _power(z, P - 2);
        uint256 square = mulmod(inverse, inverse, P);
        return Point(mulmod(x, square, P), mulmod(y, mulmod(square, inverse, P), P));
    }

    function _double(uint256 x, uint256 y, uint256 z) private pure returns (uint256 x3, uint256 y3, uint256 z3) {
        if (z == 0) return (x, y, z);
        uint256 yy = mulmod(y, y, P);
        uint256 s = mulmod(4, mulmod(x, yy, P), P);
        uint256 m = mulmod(3, mulmod(x, x, P), P);
        x3 = addmod(mulmod(m, m, P), P - mulmod(2, s, P), P);
        y3 = addmod(mulmod(m, addmod(s, P - x3, P), P), P - mulmod(8, mulmod(yy, yy, P), P), P);
        z3 = mulmod(2, mulmod(y, z, P), P);
    }

    /// @dev Jacobian plus affine; never met with two equal points here, since the sum is a multiple of a random point.
    function _add(uint256 x1, uint256 y1, uint256 z1, uint256 x2, uint256 y2)
        private
        pure
        returns (uint256 x3, uint256 y3, uint256 z3)
    {
        if (z1 == 0) return (x2, y2, 1);
        uint256 zz = mulmod(z1, z1, P);
        uint256 h = addmod(mulmod(x2, zz, P), P - x1, P);
        uint256 r = addmod(mulmod(y2, mulmod(zz, z1, P), P), P - y1, P);
        uint256 hh = mulmod(h, h, P);
        uint256 hhh = mulmod(h, hh, P);
        uint256 v = mulmod(x1, hh, P);
        x3 = addmod(addmod(mulmod(r, r, P), P - hhh, P), P - mulmod(2, v, P), P);
        y3 = addmod(mulmod(r, addmod(v, P - x3, P), P), P - mulmod(y1, hhh, P), P);
        z3 = mulmod(z1, h, P);
    }

    function _power(uint256 base, uint256 exponent) private view returns (uint256) {
        (bool done, bytes memory result) =
            address(5).staticcall(abi.encode(uint256(32), uint256(32), uint256(32), base, exponent, P));
        require(done, "modexp");
        return abi.decode(result, (uint256));
    }

    function _compressed(Point memory point) private pure returns (bytes memory) {
        return abi.encodePacked(_prefix(point), point.x);
    }

    function _prefix(Point memory point) private pure returns (uint8) {
        return uint8(2 + (point.y & 1));
    }
}
