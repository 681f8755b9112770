// @ts-check
// Worlds in Node for node_worlds.py: a line of JSON from the input is a call, and the bytes of its results go to the output.
import { readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { calls } from "./world_calls.js";
import { bytesOf } from "./worlds.js";

/** @param {import("./worlds.js").Numbers[]} arrays */
function write(arrays) {
  for (const array of arrays) {
    const bytes = bytesOf(array);
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { call, ...argument } = JSON.parse(line);
  if (call === "load") {
    argument.plan = JSON.parse(readFileSync(argument.plan, "utf8"));
    argument.module = readFileSync(argument.module);
  }
  write(await calls[call](argument));
}
