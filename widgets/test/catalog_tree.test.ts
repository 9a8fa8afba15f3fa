import assert from "node:assert/strict";
import { test } from "node:test";
import { type Node, rowAfter, visibleRows } from "../src/catalog_tree";

const NODES: Node[] = [
  { id: 0, parent: -1, label: "europe", name: "europe", kind: "namespace" },
  { id: 1, parent: -1, label: "asia", name: "asia", kind: "namespace" },
  { id: 2, parent: 0, label: "roads", name: "europe.roads", kind: "table" },
  { id: 3, parent: 0, label: "Rivers", name: "europe.Rivers", kind: "table" },
  { id: 4, parent: 1, label: "roads", name: "asia.roads", kind: "table" },
];

const names = (expanded: number[], search: string): string[] =>
  visibleRows(NODES, new Set(expanded), search).map(({ node, depth }) => `${"  ".repeat(depth)}${node.label}`);

test("a closed namespace hides its tables, an open one shows them below it", () => {
  assert.deepEqual(names([], ""), ["europe", "asia"]);
  assert.deepEqual(names([0], ""), ["europe", "  roads", "  Rivers", "asia"]);
});

test("a search finds tables of every namespace, by all of its words and in any case", () => {
  assert.deepEqual(visibleRows(NODES, new Set(), "ROADS").map(({ node }) => node.name), ["europe.roads", "asia.roads"]);
  assert.deepEqual(visibleRows(NODES, new Set(), "riv eur").map(({ node }) => node.name), ["europe.Rivers"]);
  assert.deepEqual(names([], "no such table"), []);
});

test("keys move within the rows and stop at both ends", () => {
  assert.equal(rowAfter("ArrowDown", 0, 3), 1);
  assert.equal(rowAfter("ArrowDown", 2, 3), 2);
  assert.equal(rowAfter("ArrowUp", 0, 3), 0);
  assert.equal(rowAfter("End", 0, 30), 29);
  assert.equal(rowAfter("x", 0, 3), null);
  assert.equal(rowAfter("End", 0, 0), null);
});
