// A block subscription as the reference builds it, on the `ws` package: for every client it filters the events and
// serialises a message of its own. Orders come on standard input, one JSON object a line.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { WebSocketServer } = createRequire(process.argv[2])("ws");

const clients = new Map();
const server = createServer();
const sockets = new WebSocketServer({ server, perMessageDeflate: false });

sockets.on("connection", (socket) => {
  clients.set(socket, null);
  socket.send(JSON.stringify({ type: "ready", block: 1, blockTime: "2026-01-01T00:00:00.000Z", blockIntervalMs: 6000 }));
  socket.on("message", (data) => {
    const message = JSON.parse(data.toString());
    clients.set(socket, { dids: new Set(message.dids ?? []), corporationId: message.corporationId });
    socket.send(JSON.stringify({ type: "subscribed", block: 1, blockTime: "2026-01-01T00:00:00.000Z" }));
  });
  socket.on("close", () => clients.delete(socket));
});

const matches = (event, filter) => {
  const dids = [event.did, ...event.payload.related_dids];
  const corporations = [event.payload.corporation_id, ...event.payload.related_corporation_ids];
  const didOk = filter.dids.size === 0 || dids.some((did) => filter.dids.has(did));
  return didOk && (filter.corporationId === undefined || corporations.includes(filter.corporationId));
};

const broadcast = ({ block, blockTime, events }) => {
  for (const [socket, filter] of clients) {
    if (filter === null) continue;
    const own = events.filter((event) => matches(event, filter));
    socket.send(JSON.stringify({ type: "block", block, blockTime, events: own }));
  }
};

server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => console.log(server.address().port));
createInterface({ input: process.stdin }).on("line", (line) => broadcast(JSON.parse(line)));
