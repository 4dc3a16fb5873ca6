// What the list of tools costs a model: tokens (o200k_base) of every tool as it is listed, by surface, with and without the
// output schemas that most hosts do not pass on.
// Run: node tokens.mjs <file with the listing>
import { readFileSync } from "node:fs";
import { encode } from "gpt-tokenizer/encoding/o200k_base";

const tokens = (value) => encode(JSON.stringify(value)).length;
const surfaces = {};
for (const tool of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  const { outputSchema, ...rest } = tool;
  const surface = (surfaces[tool.name.split(".")[1]] ??= { tools: 0, whole: 0, input: 0 });
  surface.tools += 1;
  surface.whole += tokens(tool);
  surface.input += tokens(rest);
}
const total = { tools: 0, whole: 0, input: 0 };
console.log("| surface | tools | tokens | without output schemas |");
console.log("|---|---|---|---|");
for (const [name, { tools, whole, input }] of Object.entries(surfaces)) {
  console.log(`| ${name} | ${tools} | ${whole} | ${input} |`);
  total.tools += tools;
  total.whole += whole;
  total.input += input;
}
console.log(`| all | ${total.tools} | ${total.whole} | ${total.input} |`);
