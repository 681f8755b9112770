// @ts-check
// SHA-256 of bytes that come in parts (FIPS 180-4). crypto.subtle takes all of them at once, and pages without TLS have none.

const primes = [2, 3];
for (let n = 5; primes.length < 64; n += 2) if (primes.every((prime) => n % prime)) primes.push(n);
const fraction = (/** @type {number} */ x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
const START = Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)) | 0);

export class Sha256 {
  #state = START.slice();
  #block = new Uint8Array(64);
  #used = 0;
  #total = 0;
  #words = new Int32Array(64);

  /** @param {Uint8Array} bytes */
  update(bytes) {
    this.#total += bytes.length;
    let at = 0;
    if (this.#used) {
      at = Math.min(64 - this.#used, bytes.length);
      this.#block.set(bytes.subarray(0, at), this.#used);
      this.#used += at;
      if (this.#used < 64) return;
      this.#compress(this.#block, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.#compress(bytes, at);
    this.#block.set(bytes.subarray(at), 0);
    this.#used = bytes.length - at;
  }

  /** The hash of all bytes so far in hexadecimal digits; nothing may follow. */
  hex() {
    const bits = BigInt(this.#total) * 8n, rest = new Uint8Array((this.#used < 56 ? 64 : 128) - this.#used);
    rest[0] = 0x80;
    new DataView(rest.buffer).setBigUint64(rest.length - 8, bits);
    this.update(rest);
    return Array.from(this.#state, (word) => word.toString(16).padStart(8, "0")).join("");
  }

  /** @param {Uint8Array} bytes @param {number} at */
  #compress(bytes, at) {
    const w = this.#words, s = this.#state;
    for (let i = 0; i < 16; ++i, at += 4) w[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    for (let i = 16; i < 64; ++i) {
      const x = w[i - 15], y = w[i - 2];
      const one = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const two = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + one + w[i - 7] + two) | 0;
    }
    let [a, b, c, d, e, f, g, h] = s;
    for (let i = 0; i < 64; ++i) {
      const high = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const first = (h + high + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const low = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, k) => { s[k] += word; });
  }
}
