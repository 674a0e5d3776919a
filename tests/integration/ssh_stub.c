/* Stands for ssh and an agent behind it: takes the shell's lines and the zip (its size is in ZIP), then answers each question
   with an empty sample. Hosts whose number is divisible by DEAD are dead: it says so as ssh does, after SECONDS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *message) {
    printf("\x1e%s\n", message);
    fflush(stdout);
}

int main(int count, char **words) {
    static char block[1 << 16], line[1 << 16];
    const char *host = "";
    long zip = atol(getenv("ZIP"));
    int length = 0;
    enum { SCRIPT, ARCHIVE, QUESTIONS } state = SCRIPT;
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(words[i], "--")) host = words[i + 1];
    if (atoi(host + 4) % atoi(getenv("DEAD")) == 0) {
        sleep(atoi(getenv("SECONDS")));
        fprintf(stderr, "ssh: connect to host %s port 22: Connection timed out\n", host);
        return 255;
    }
    for (ssize_t got; (got = read(0, block, sizeof block)) > 0;)
        for (ssize_t i = 0; i < got; i++) {
            if (state == ARCHIVE) {
                if (--zip == 0) {
                    say("{\"hello\":1,\"machine\":\"x86_64\"}");
                    state = QUESTIONS;
                }
            } else if (block[i] != '\n') {
                if (length < (int)sizeof line - 1) line[length++] = block[i];
            } else {
                char *id;
                line[length] = 0;
                length = 0;
                if (state == SCRIPT && !strcmp(line, "}")) {
                    say("{\"go\":1}");
                    state = ARCHIVE;
                } else if (state == QUESTIONS && (id = strstr(line, "\"id\":"))) {
                    char answer[400];
                    snprintf(answer, sizeof answer, "{\"sample\":{\"host\":\"%.200s\",\"at\":1,\"mono\":1,\"boot\":1},\"id\":%d}", host, atoi(id + 5));
                    say(answer);
                }
            }
        }
    return 0;
}
