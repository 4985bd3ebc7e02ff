// Asks kubegc, built for wasm32-unknown-unknown: node caller.mjs MODULE < question.json
// In a page, fetch() gives the module.
import { readFileSync } from "node:fs";

const module = await WebAssembly.compile(readFileSync(process.argv[2]));
// A dependency can take random bytes from a page. No question needs them.
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  (imports[from] ??= {})[name] = () => { throw new Error(`${name} is not available`); };
}
const kubegc = (await WebAssembly.instantiate(module, imports)).exports;

function answer(question) {
  const text = new TextEncoder().encode(JSON.stringify(question));
  const bytes = kubegc.kubegc_allocate(text.length);
  const length = kubegc.kubegc_allocate(4);
  new Uint8Array(kubegc.memory.buffer, bytes, text.length).set(text);
  const found = kubegc.kubegc_answer(bytes, text.length, 0, length);
  const foundLength = new DataView(kubegc.memory.buffer).getUint32(length, true);
  const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(kubegc.memory.buffer, found, foundLength)));
  for (const [at, size] of [[bytes, text.length], [length, 4], [found, foundLength]]) kubegc.kubegc_free(at, size);
  return answer;
}

process.stdout.write(JSON.stringify(answer(JSON.parse(readFileSync(0, "utf8")))));
