/* SHA-1 (FIPS 180-4) over one short message, and the UUID made of it (RFC 9562). */
#include "uuid.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

static void sha1_block(uint32_t hash[5], const uint8_t block[64])
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }
        uint32_t next = rotate(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

/* Messages of at most 55 bytes: one block. */
static void sha1_short(const uint8_t *message, size_t length, uint8_t digest[20])
{
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t block[64] = {0};
    memcpy(block, message, length);
    block[length] = 0x80;
    block[62] = (uint8_t)(length * 8 >> 8);
    block[63] = (uint8_t)(length * 8);
    sha1_block(hash, block);
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}

void sim_mig_uuid(const char *gpu_uuid, unsigned int gpu_instance, unsigned int compute_instance,
                  char uuid[SIM_MIG_UUID_SIZE])
{
    uint8_t message[48] = {0}, digest[20];
    size_t length = 0;
    unsigned int high = 0;
    int digits = 0;
    const char *text = strncmp(gpu_uuid, "GPU-", 4) == 0 ? gpu_uuid + 4 : gpu_uuid;
    for (; *text && length < 16; text++) { /* the GPU's UUID is the name space */
        unsigned int digit;
        if (sscanf((char[2]){*text, 0}, "%1x", &digit) != 1)
            continue;
        if (digits++ % 2 == 0)
            high = digit;
        else
            message[length++] = (uint8_t)(high << 4 | digit);
    }
    length += (size_t)snprintf((char *)message + length, sizeof(message) - length, "%u/%u", gpu_instance, compute_instance);
    sha1_short(message, length, digest);
    digest[6] = (uint8_t)((digest[6] & 0x0f) | 0x50);
    digest[8] = (uint8_t)((digest[8] & 0x3f) | 0x80);
    char *out = uuid + sprintf(uuid, "MIG-");
    for (int i = 0; i < 16; i++)
        out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", digest[i]);
}
