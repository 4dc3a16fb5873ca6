// Verifies signatures of webhooks with standardwebhooks: a JSON object a line, an answer a line.

import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.argv[2].split(" ")[0]);
for await (const line of createInterface({ input: process.stdin })) {
  const { body, headers } = JSON.parse(line);
  try {
    webhook.verify(body, headers);
    console.log("verified");
  } catch (error) {
    console.log(`refused: ${error}`);
  }
}
