import { throughput } from "./throughput.ts";
console.log(await throughput.run());
