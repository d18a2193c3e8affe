// onnxruntime for Node or for the browser (WebAssembly); CONSUMER names the package.
import fs from "node:fs";
import { createRequire } from "node:module";
import { answer, feeds } from "./arrays.mjs";

const ort = createRequire(process.cwd() + "/")(process.env.CONSUMER);
if (ort.env.wasm) ort.env.wasm.numThreads = 1;
const [path, inputs] = feeds();
const session = await ort.InferenceSession.create(fs.readFileSync(path));
const given = inputs.map(({ name, dtype, shape, data }) => [name, new ort.Tensor(dtype, data, shape)]);
const found = await session.run(Object.fromEntries(given));
answer(session.outputNames.map((name) => ({ dtype: found[name].type, shape: found[name].dims, data: found[name].data })));
