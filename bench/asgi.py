"""`python -m bench.asgi DATABASE_URL`: the least that answers a POST with an INSERT; prints its port."""

import asyncio
import socket
import sys
from typing import Any

import asyncpg
import uvicorn

CONNECTIONS = 10


async def main(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        await pool.execute("CREATE TABLE thing (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)")

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            message = await receive()
            made = await pool.fetchval("INSERT INTO thing (body) VALUES ($1) RETURNING id", message["body"].decode())
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 201, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"id":%d}' % made})

        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            door.listen(10 * CONNECTIONS)
            print(door.getsockname()[1], flush=True)
            config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
            await uvicorn.Server(config).serve(sockets=[door])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
