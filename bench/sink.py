"""`python -m bench.sink`: an HTTP server that answers 200 to whatever comes, as cheaply as it can; prints its port."""

import asyncio

import uvloop

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Sink(asyncio.Protocol):
    """One connection: requests with a content-length, one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(data) < end + 4 + length:
                break
            data = data[end + 4 + length :]
            self._transport.write(OK)  # type: ignore[attr-defined]
        self._rest = data


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
