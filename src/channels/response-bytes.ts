// The bytes of an answer that are read later, after questions to the database. fetch cancels a body nobody has begun to read when the
// garbage collector finds its Response gone, and whoever reads it then is told that it ended: a file would arrive empty, without an
// error. So the Response lives as long as what is handed out here.

export async function* responseBytes(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body !== null) yield* response.body;
}
