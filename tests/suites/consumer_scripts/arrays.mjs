// Arrays as JSON, as arrays.py has them.
import fs from "node:fs";

const KINDS = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array };

export function feeds() {
  const found = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
  const inputs = Object.entries(found).map(([name, { dtype, shape, data }]) => {
    const bytes = Uint8Array.from(Buffer.from(data, "base64"));
    return { name, dtype, shape, data: new KINDS[dtype](bytes.buffer) };
  });
  return [process.argv[2], inputs];
}

export function answer(outputs) {
  const entries = outputs.map(({ dtype, shape, data }, i) => {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return [String(i), { dtype, shape, data: bytes.toString("base64") }];
  });
  fs.writeFileSync(process.argv[4], JSON.stringify(Object.fromEntries(entries)));
}
