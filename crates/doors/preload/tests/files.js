// Reads, writes, copies and lists files in the current directory, and starts a child.
const fs = require("fs");
const { spawnSync } = require("child_process");

fs.writeFileSync("a", "hello");
console.log(fs.readFileSync("a", "utf8"), fs.statSync("a").size);
fs.mkdirSync("d/e", { recursive: true });
fs.copyFileSync("a", "d/e/f");
fs.renameSync("d/e/f", "d/g");
const stdio = ["ignore", fs.openSync("o", "w"), fs.openSync("e", "w")];
spawnSync("sh", ["-c", "echo out; echo err >&2"], { stdio });
process.stdout.write(fs.readFileSync("o", "utf8") + fs.readFileSync("e", "utf8"));
const stream = fs.createWriteStream("s");
for (let number = 0; number < 1000; number++) stream.write(`line ${number}\n`);
stream.end(async () => {
    console.log((await fs.promises.readFile("s")).length);
    await fs.promises.rm("d", { recursive: true });
    console.log(fs.readdirSync(".").join());
});
