"""Runs an ASGI app on 127.0.0.1 and prints `listening` once it serves."""

import uvicorn


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        if self.started:
            print("listening", flush=True)


def serve(app, port):
    # without a limit an open event stream would hold up the end after SIGTERM
    settings = {"log_level": "warning", "timeout_graceful_shutdown": 1}
    Server(uvicorn.Config(app, host="127.0.0.1", port=int(port), **settings)).run()
