// Parses diagrams by the library with which code hosts draw them. Standard input: a JSON list of {place, text}.
import { JSDOM } from "jsdom";

// The library cleans labels by the DOM of a browser.
globalThis.window = new JSDOM("").window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");

let input = "";
for await (const piece of process.stdin) input += piece;
const diagrams = JSON.parse(input);
for (const { place, text } of diagrams) {
  try {
    await mermaid.parse(text);
  } catch (error) {
    console.error(`${place}: ${error.message}`);
    process.exit(1);
  }
}
console.log(`mermaid: ${diagrams.length} diagrams parse`);
