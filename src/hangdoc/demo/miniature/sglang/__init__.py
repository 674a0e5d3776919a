"""Not SGLang: a miniature of its start-up for `hangdoc demo`, with its process titles, log lines and function names.

Standard library only. Real processes load real (empty) files, talk over real sockets and pipes, and one of them
can be made to dead-lock. Every process ends when its parent does.
"""
