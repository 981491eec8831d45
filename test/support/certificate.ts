// A self-signed certificate for 127.0.0.1, made on the spot, so that no private key is kept in the repository.
// The few DER pieces X.509 needs, by hand: node:crypto can sign, but has no way to write a certificate.
import { generateKeyPairSync, sign } from "node:crypto";

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const utcTime = (at: Date): Buffer => der(0x17, Buffer.from(`${at.toISOString().replace(/[-:T]/g, "").slice(2, 14)}Z`));

const ECDSA_SHA256 = sequence(oid("2a8648ce3d040302"));
const NAME = sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from("herald test")))));
const LOOPBACK = Buffer.from([127, 0, 0, 1]);

/** Valid between the two times. */
export function makeCertificate(from: Date, until: Date): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  // subjectAltName with one IP address.
  const extensions = der(0xa3, sequence(sequence(oid("551d11"), der(0x04, sequence(der(0x87, LOOPBACK))))));
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ECDSA_SHA256,
    NAME,
    sequence(utcTime(from), utcTime(until)),
    NAME,
    publicKey.export({ type: "spki", format: "der" }),
    extensions,
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", body, privateKey));
  const base64 = sequence(body, ECDSA_SHA256, signature).toString("base64");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}
