/* examples/digits/main.c: a handwritten digit read by the network of digits.pt2, compiled to C by fxcc.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   digits [PICTURE]   shows a picture, what the network makes of it, and its accuracy over all pictures
 *
 * Standard C99 and no memory but static: it runs as well on a microcontroller. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"
#include "pictures.h"

static DIGITS_ALIGNED unsigned char arena[DIGITS_ARENA_SIZE];
static digits_context context;

/* Probabilities of the ten digits for a picture of 8 x 8 pixels, 0 to 16. Returns the likeliest digit, -1 on an error. */
static int classify(const struct picture *p, float probability[10])
{
    float x[DIGITS_IN0_NUMEL], sum = 0;
    int best = 0;

    for (int i = 0; i < 64; i++)
        x[i] = (float)p->pixel[i] / 16;
    if (digits_run(&context, x, probability) != DIGITS_OK)
        return -1;
    for (int i = 1; i < 10; i++)
        if (probability[i] > probability[best])
            best = i;
    const float top = probability[best];
    for (int i = 0; i < 10; i++)
        sum += probability[i] = expf(probability[i] - top);
    for (int i = 0; i < 10; i++)
        probability[i] /= sum;
    return best;
}

static void show(const struct picture *p, const float probability[10])
{
    static const char shade[] = " .:-=+*#%@";

    for (int row = 0; row < 8; row++) {
        printf("    ");
        for (int column = 0; column < 8; column++) {
            const char c = shade[p->pixel[row * 8 + column] * 9 / 16];
            putchar(c);
            putchar(c);
        }
        putchar('\n');
    }
    putchar('\n');
    for (int digit = 0; digit < 10; digit++) {
        printf("    %d %5.1f %% ", digit, (double)(100 * probability[digit]));
        for (int i = 0; i < (int)(40 * probability[digit] + 0.5f); i++)
            putchar('#');
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    const int which = argc > 1 ? atoi(argv[1]) : 7;
    float probability[10];
    int right = 0;

    if (which < 0 || which >= N_PICTURES) {
        fprintf(stderr, "digits: expected a picture from 0 to %d, got %s\n", N_PICTURES - 1, argv[1]);
        return 1;
    }
    const int status = digits_init(&context, digits_weights, DIGITS_WEIGHTS_SIZE, arena, sizeof arena);
    if (status != DIGITS_OK) {
        fprintf(stderr, "digits: %s\n", digits_status_string(status));
        return 1;
    }
    const int read = classify(&pictures[which], probability);
    if (read < 0)
        return 1;
    show(&pictures[which], probability);
    printf("\n    read as %d, is %d\n\n", read, pictures[which].label);
    for (int i = 0; i < N_PICTURES; i++)
        right += classify(&pictures[i], probability) == pictures[i].label;
    printf("%d of %d pictures that were kept from training are read right.\n", right, N_PICTURES);
    return 0;
}
