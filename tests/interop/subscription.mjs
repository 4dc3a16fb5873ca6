// The `ws` package hears a whole market being made: every height once, and exactly the events that can be read afterwards.
import assert from "node:assert/strict";
import WebSocket from "ws";

const { SVC_INDEXER: indexer, SVC_EXPECTED_HEIGHT: expected } = process.env;
const last = Number(expected);
const socket = new WebSocket(`${indexer.replace("http", "ws")}/v4/indexer/subscribe`);
const heard = [];
let next;

const finish = async () => {
  const read = [];
  let cursor = "";
  do {
    const answer = await fetch(`${indexer}/v4/indexer/events?limit=10&after_block_height=${first - 1}${cursor}`);
    const page = await answer.json();
    read.push(...page.events);
    cursor = page.next_cursor ? `&cursor=${page.next_cursor}` : null;
  } while (cursor);
  const told = read.filter((event) => event.block_height <= last);
  assert.ok(heard.length > 100, `${heard.length} events`);
  assert.deepEqual(heard, told);
  console.log(`subscription: ${heard.length} events of ${last - first + 1} blocks, as they can be read`);
  socket.close();
};

let first;
socket.on("open", () => socket.send(JSON.stringify({ action: "subscribe" })));
socket.on("message", (data) => {
  const message = JSON.parse(data.toString());
  if (message.type === "subscribed") {
    first = next = message.block;
    console.log("subscription: subscribed");
  }
  if (message.type !== "block" || message.block > last) return;
  assert.equal(message.block, next, "every height once, in order");
  next += 1;
  heard.push(...message.events);
  if (message.block === last) finish();
});
socket.on("error", (error) => {
  throw error;
});
