// TensorFlow.js on its plain backend, from the files that its converter wrote.
import fs from "node:fs";
import { createRequire } from "node:module";
import { answer, feeds } from "./arrays.mjs";

const tf = createRequire(process.cwd() + "/")("@tensorflow/tfjs");
await tf.setBackend("cpu");
const [folder, inputs] = feeds();
const model = JSON.parse(fs.readFileSync(folder + "/model.json", "utf8"));
const parts = model.weightsManifest.flatMap((group) => group.paths).map((name) => fs.readFileSync(`${folder}/${name}`));
const weights = Uint8Array.from(Buffer.concat(parts)).buffer;
const { modelTopology, signature, userDefinedMetadata } = model;
const weightSpecs = model.weightsManifest.flatMap((group) => group.weights);
const artefacts = { modelTopology, signature, userDefinedMetadata, weightSpecs, weightData: weights };
const graph = await tf.loadGraphModel(tf.io.fromMemory(artefacts));
const given = inputs.map(({ name, dtype, shape, data }) => {
  const values = dtype === "int64" ? Int32Array.from(data, Number) : data;
  return [name, tf.tensor(values, shape, dtype === "float32" ? "float32" : "int32")];
});
const found = await graph.executeAsync(Object.fromEntries(given));
answer((Array.isArray(found) ? found : [found]).map((y) => ({ dtype: y.dtype, shape: y.shape, data: y.dataSync() })));
